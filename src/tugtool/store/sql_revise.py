"""The statements with which a plan's new text is taken into its record; see `sql`."""

# -- plans -----------------------------------------------------------------------------

AGREED_TEXT = "select plan_text from plans where plan_path = :plan"

REVISION = "select plan_hash from plan_revisions where plan_path = :plan and replaced_at = :at"

KEEP_REVISION = """
insert into plan_revisions (plan_path, plan_hash, plan_text, replaced_at)
select plan_path, plan_hash, plan_text, :at
  from plans
 where plan_path = :plan
"""

# The base commit is the one that brought the new text; where nobody knows it, it stays.
REVISE_PLAN = """
update plans
   set plan_hash = :hash, plan_text = :text, phase_title = :title, updated_at = :now,
       base_commit = coalesce(cast(:base_commit as text), base_commit)
 where plan_path = :plan
"""

# How many steps there are, and of what, counted anew.
RECOUNT_PLAN = """
update plan_counts
   set steps_total = :total, steps_done = :done, steps_ready = :ready, changed_at = :now
 where plan_path = :plan
"""

# -- steps and dependencies ------------------------------------------------------------

# Where a step stands in the plan; what has happened to it stays.
PLACE_STEP = """
update steps
   set parent_anchor = :parent, step_index = :step_index, title = :title, open_deps = :open_deps
 where plan_path = :plan and anchor = :anchor
"""

START_STEP_OVER = """
update steps
   set status = 'pending', claimed_by = null, claimed_at = null, lease_expires_at = null,
       heartbeat_at = null, started_at = null, completed_at = null, completed_by = null,
       commit_hash = null, complete_reason = null, claims_without_progress = 0,
       parked_at = null, park_reason = null, attempt = :attempt
 where plan_path = :plan and anchor = :anchor
"""

DROP_STEP = "delete from steps where plan_path = :plan and anchor = :anchor"

DROP_DEP = """
delete from step_deps
 where plan_path = :plan and step_anchor = :anchor and depends_on = :depends_on
"""

# -- checklists ------------------------------------------------------------------------

# So far away that none of the places to which they go is taken.
MOVE_ITEMS_AWAY = """
update checklist_items
   set ordinal = ordinal + :by
 where plan_path = :plan and step_anchor = :anchor
"""

PLACE_ITEM = "update checklist_items set ordinal = :ordinal where id = :id"

DROP_ITEM = "delete from checklist_items where id = :id"

DROP_ITEMS = "delete from checklist_items where plan_path = :plan and step_anchor = :anchor"

# -- attempts, artifacts, events -------------------------------------------------------

STEP_ATTEMPTS = """
select *
  from attempts
 where plan_path = :plan and step_anchor = :anchor
 order by number
"""

DROP_UNSAVED_STEP = "delete from unsaved where plan_path = :plan and step_anchor = :anchor"

DROP_ATTEMPTS = "delete from attempts where plan_path = :plan and step_anchor = :anchor"

DROP_ARTIFACTS = "delete from step_artifacts where plan_path = :plan and step_anchor = :anchor"

FENCING_EVENTS = """
select kind, detail
  from events
 where plan_path = :plan and kind in ('revise', 'restore')
 order by seq
"""
