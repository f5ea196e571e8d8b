-- What clients registered at run time and a restart must bring back: scopes, wire tools, restrictions, presentations, MCP servers.
CREATE TABLE registrations (
  kind TEXT NOT NULL,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  data ANY NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (kind, scope, name)
) STRICT;
