-- Asks and questions, and how they were decided. `hash` is that of exactly what would run; `data` and `answer` are JSON text.
CREATE TABLE approvals (
  id TEXT NOT NULL PRIMARY KEY,
  session TEXT REFERENCES sessions (id) ON DELETE CASCADE,
  scope TEXT NOT NULL,
  call_id TEXT,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  hash TEXT,
  data ANY NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  decided_at INTEGER,
  decided_by TEXT,
  outcome TEXT,
  answer ANY
) STRICT;
CREATE INDEX approvals_by_state ON approvals (state, scope);
CREATE INDEX approvals_by_call ON approvals (session, call_id);
