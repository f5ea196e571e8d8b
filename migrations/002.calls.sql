-- The life of each call beside its events. `input` is what recovery or an approval runs again, `outcome` what a replay answers;
-- both are JSON text, packed when large.
CREATE TABLE calls (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  call_id TEXT NOT NULL,
  name TEXT NOT NULL,
  args_hash TEXT NOT NULL,
  turn INTEGER NOT NULL,
  step INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('accepted', 'started', 'awaiting-approval', 'done')),
  call_seq INTEGER,
  result_seq INTEGER,
  accepted_at INTEGER NOT NULL,
  started_at INTEGER,
  duration_ms REAL,
  input ANY,
  outcome ANY,
  PRIMARY KEY (session, call_id)
) STRICT;
CREATE INDEX calls_not_done ON calls (state) WHERE state <> 'done';
CREATE INDEX calls_by_turn ON calls (session, turn);
