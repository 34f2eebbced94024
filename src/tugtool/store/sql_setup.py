"""The statements with which a plan comes into its record; see `sql`."""

ADD_PLAN = """
insert into plans (plan_path, plan_hash, phase_title, status, created_at, updated_at,
                   base_commit, plan_text)
values (:plan, :hash, :title, 'active', :now, :now, :base_commit, :text)
"""

ADD_COUNTS = """
insert into plan_counts (plan_path, steps_total, steps_done, steps_ready, changed_at)
values (:plan, :total, 0, :ready, :now)
"""

ADD_STEP = """
insert into steps (plan_path, anchor, parent_anchor, step_index, title, status, attempt,
                   claims_without_progress, open_deps)
values (:plan, :anchor, :parent, :step_index, :title, 'pending', 0, 0, :open_deps)
"""

ADD_DEP = """
insert into step_deps (plan_path, step_anchor, depends_on)
values (:plan, :anchor, :depends_on)
"""

ADD_ITEM = """
insert into checklist_items (plan_path, step_anchor, kind, ordinal, text, status)
values (:plan, :anchor, :kind, :ordinal, :text, 'open')
"""
