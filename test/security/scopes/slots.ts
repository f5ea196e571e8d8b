import type { Kind } from './world.ts'

/** What a parameter or member names: a kind of thing, or nothing that belongs to anybody. */
export type Slot = Kind | 'nothing'

/**
 * Of path, query and header parameters by their names, and of members of bodies and frames. A name that is not here fails the test: say
 * what it names, or that it names nothing.
 */
export const slots: Readonly<Record<string, Slot>> = {
  'path scope': 'scope',
  'path session': 'session',
  'path callId': 'call',
  'path name': 'tool',
  'path turn': 'nothing',
  'query scope': 'scope',
  'query session': 'session',
  'query logId': 'nothing',
  'query after': 'nothing',
  'header mcp-session-id': 'mcpSession',
  'header mcp-protocol-version': 'nothing',
  'header last-event-id': 'nothing',
  'header if-none-match': 'nothing',
  // Of the session that the call is in.
  'header idempotency-key': 'nothing',
  'header prefer': 'nothing',
  'member scope': 'scope',
  'member parent': 'scope',
  'member session': 'session',
  'member approvalId': 'approval',
  'member providerId': 'provider',
  'member dispatchId': 'dispatch',
  'member callId': 'nothing',
  'member name': 'nothing',
  'member allow': 'tool',
  'member deny': 'tool',
  ...Object.fromEntries(
    [
      ...['limit', 'state', 'maxBytes', 'stream', 'waitMs', 'type', 'format', 'dryRun'].map((name) => `query ${name}`),
      ...['label', 'role', 'ttlMs', 'overlapMs', 'description', 'parameters', 'output', 'timeoutMs', 'concurrency'],
      ...[
        'idempotent',
        'executor',
        'document',
        'prefix',
        'baseUrl',
        'auth',
        'include',
        'exclude',
        'dryRun',
        'presentAs'
      ],
      ...[
        'restrict',
        'mode',
        'queue',
        'rates',
        'tools',
        'transport',
        'command',
        'args',
        'env',
        'cwd',
        'url',
        'headers'
      ],
      ...[
        'toolCallTimeoutMs',
        'connectTimeoutMs',
        'failOnStartupError',
        'reconnect',
        'sharing',
        'drift',
        'hash',
        'turn'
      ],
      ...[
        'step',
        'arguments',
        'rawArguments',
        'onDisconnect',
        'calls',
        'decision',
        'answers',
        'reason',
        'text',
        'signal'
      ],
      ...['preset', 'sandbox', 'approval', 'message', 'cause', 'type', 'id', 'events', 'after', 'logId', 'value'],
      ...['content', 'error', 'chunk']
    ].map((name) => [name.includes(' ') ? name : `member ${name}`, 'nothing'])
  )
}

/** Where one of these names means something else. */
export const exceptions: Readonly<Record<string, Slot>> = {
  'DELETE /scopes/{scope}/restrictions/{id} path id': 'mask',
  'GET /tokens/{id} path id': 'token',
  'DELETE /tokens/{id} path id': 'token',
  'POST /tokens/{id}/rotate path id': 'token',
  'POST /approvals/{id} path id': 'approval',
  'GET /jobs/{id}/output path id': 'job',
  'POST /jobs/{id}/kill path id': 'job',
  'GET /terminals/{id}/output path id': 'terminal',
  'POST /terminals/{id}/input path id': 'terminal',
  'POST /terminals/{id}/signal path id': 'terminal',
  'POST /terminals/{id}/close path id': 'terminal',
  'GET /mcp-servers/{name} path name': 'mcpServer',
  'PUT /mcp-servers/{name} path name': 'mcpServer',
  'DELETE /mcp-servers/{name} path name': 'mcpServer',
  'GET /tokens query after': 'token',
  'GET /tools query after': 'tool',
  'GET /jobs query after': 'job',
  'GET /approvals query after': 'approvalCursor',
  'POST /invoke member name': 'tool',
  'frame invoke member name': 'tool',
  'frame cancel member callId': 'call'
}

/** A body, or the members of a frame, with which the request is a good one but for the ids. */
export const bodies: Readonly<Record<string, Record<string, unknown>>> = {
  'POST /tokens': { role: 'observer' },
  'POST /tools': {
    name: 'made',
    description: 'x',
    parameters: { type: 'object' },
    executor: { kind: 'http', url: 'http://a.invalid/' }
  },
  'POST /tools/import': {
    document: {
      openapi: '3.1.0',
      info: { title: 'a', version: '1' },
      servers: [{ url: 'http://a.invalid' }],
      paths: {}
    }
  },
  'PUT /scopes/{scope}/presentation': { mode: 'native' },
  'PUT /mcp-servers/{name}': { transport: 'streamable-http', url: 'http://127.0.0.1:1/' },
  'POST /invoke': { name: 'alpha' },
  'POST /invoke/batch': { calls: [{ name: 'alpha' }] },
  'POST /approvals/{id}': { decision: 'allow' },
  'POST /terminals/{id}/input': { text: ' ' },
  'POST /terminals/{id}/signal': { signal: 'SIGINT' },
  'PUT /sessions/{session}/permissions': { approval: 'never' },
  'POST /scopes/{scope}/mcp': { jsonrpc: '2.0', id: 1, method: 'tools/list' },
  'frame cancel': { session: 'bbbb-session', callId: 'bbbb-call' },
  'frame invoke': { name: 'alpha' },
  'frame approval': { approvalId: 'none', decision: 'allow' },
  'frame provide': { providerId: 'bbbb-provider', tools: [] },
  'frame call/result': { dispatchId: 'none', value: 1 },
  'frame call/progress': { dispatchId: 'none', chunk: 'x' }
}

/**
 * Where an id that nobody has is there for the taking, so that its answer cannot be that of one that is taken: the latter is answered as
 * the look-up of an id that nobody has.
 */
export const takes: Readonly<Record<string, 'scope' | 'session'>> = {
  'PUT /scopes/{scope} path scope': 'scope',
  'PUT /sessions/{session} path session': 'session',
  'POST /sessions/{session}/turns path session': 'session',
  'POST /invoke member session': 'session',
  'POST /invoke/batch member session': 'session',
  'frame invoke member session': 'session'
}

/** Where what is not there is no 404: a cursor, a filter, a mask of unknown names, a tool that a call names, a provider's own name. */
export const otherwise: Readonly<Record<string, number>> = {
  'GET /tokens query after': 400,
  'GET /tools query after': 400,
  'GET /jobs query after': 410,
  'GET /approvals query after': 200,
  'GET /jobs query session': 200,
  'GET /terminals query session': 200,
  'POST /scopes/{scope}/restrictions member allow': 422,
  'POST /scopes/{scope}/restrictions member deny': 422,
  'POST /invoke member name': 200
}
