import type { IncomingMessage } from 'node:http'

/** Whether Node has taken the request for an upgrade, so that its socket is no longer the HTTP server's to close. */
export const isUpgrade = (request: IncomingMessage & { upgrade?: boolean | null }): boolean => request.upgrade === true
