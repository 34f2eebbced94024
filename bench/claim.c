/* The least that a claim can cost: one transaction on the same tables, in C.
   Usage: claim STATE.DB PLAN OWNER */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *NOW = "2026-01-01T00:00:00.000Z", *UNTIL = "2099-01-01T00:00:00.000Z";

static sqlite3 *db;
static char anchor[256];

static void fail(const char *where) {
  fprintf(stderr, "%s: %s\n", where, sqlite3_errmsg(db));
  _exit(1);
}

static void run(const char *sql, int steps, const char *plan, const char *owner) {
  sqlite3_stmt *stmt;
  const char *values[] = {plan, anchor, owner, NOW, UNTIL};
  if (sqlite3_prepare_v2(db, sql, -1, &stmt, 0)) fail(sql);
  for (int i = 0; i < sqlite3_bind_parameter_count(stmt); i++)
    sqlite3_bind_text(stmt, i + 1, values[i], -1, SQLITE_STATIC);
  int got = sqlite3_step(stmt);
  if (got == SQLITE_ROW && steps)
    snprintf(anchor, sizeof anchor, "%s", (const char *)sqlite3_column_text(stmt, 0));
  else if (got != SQLITE_DONE && got != SQLITE_ROW) fail(sql);
  sqlite3_finalize(stmt);
}

int main(int argc, char **argv) {
  if (argc != 4 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, 0)) fail("open");
  sqlite3_busy_timeout(db, 5000);
  run("pragma foreign_keys = on", 0, 0, 0);
  run("pragma synchronous = full", 0, 0, 0);
  run("begin immediate", 0, 0, 0);
  run("select anchor from steps where plan_path = ?1 and parent_anchor is null and status = "
      "'pending' and open_deps = 0 and parked_at is null order by step_index limit 1",
      1, argv[2], argv[3]);
  run("update steps set status = 'claimed', claimed_by = ?3, claimed_at = ?4, heartbeat_at = ?4, "
      "lease_expires_at = ?5, attempt = attempt + 1 where plan_path = ?1 and anchor = ?2",
      0, argv[2], argv[3]);
  run("update plan_counts set steps_ready = steps_ready - 1, changed_at = ?4 where plan_path = ?1 and "
      "?2 <> '' and ?3 <> ''", 0, argv[2], argv[3]);
  run("insert into attempts (plan_path, step_anchor, number, worktree, lease_seconds, claimed_at, "
      "seen_at) values (?1, ?2, 1, ?3, 7200, ?4, ?4)", 0, argv[2], argv[3]);
  run("insert into events (at, plan_path, step_anchor, kind, actor, attempt, detail) values (?4, "
      "?1, ?2, 'claim', ?3, 1, '{}')", 0, argv[2], argv[3]);
  run("commit", 0, 0, 0);
  printf("%s\n", anchor);
  fflush(stdout);
  _exit(anchor[0] ? 0 : 1);
}
