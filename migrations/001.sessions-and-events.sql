-- One row: who this log is. `head` keeps the last position when the newest events are deleted; `pruned` is the last position
-- that retention removed, so that a cursor before it is known to have expired.
CREATE TABLE log (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  log_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  head INTEGER NOT NULL DEFAULT -1,
  pruned INTEGER NOT NULL DEFAULT -1
) STRICT;

-- `turn` is the last opened turn (0: none), `step` the last step of it. `first_seq` is the oldest event kept and `anchor` the
-- hash of the one before it, from which the chain of the kept events goes on.
CREATE TABLE sessions (
  id TEXT NOT NULL PRIMARY KEY,
  scope TEXT NOT NULL,
  cwd TEXT,
  created_at INTEGER NOT NULL,
  turn INTEGER NOT NULL DEFAULT 0,
  turn_open INTEGER NOT NULL DEFAULT 0 CHECK (turn_open IN (0, 1)),
  step INTEGER NOT NULL DEFAULT 0,
  first_seq INTEGER NOT NULL DEFAULT 0,
  anchor TEXT
) STRICT;
CREATE INDEX sessions_by_scope ON sessions (scope);
CREATE INDEX sessions_with_open_turn ON sessions (id) WHERE turn_open = 1;

-- `data` is JSON text, or a packed blob when it is large. `call_id` is set for tool/call and tool/result alone.
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL CHECK (seq >= 0),
  type TEXT NOT NULL,
  time INTEGER NOT NULL,
  call_id TEXT,
  surface_op TEXT,
  sources TEXT,
  data ANY NOT NULL,
  prev_hash BLOB NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_session ON events (session, seq);
CREATE UNIQUE INDEX one_call_per_id ON events (session, call_id) WHERE type = 'tool/call';
CREATE UNIQUE INDEX one_result_per_call ON events (session, call_id) WHERE type = 'tool/result';
