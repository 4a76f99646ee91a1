import type { IncomingMessage } from 'node:http'
import { cookieNamed } from '../http1/cookies.ts'
import type { Backend, Instance } from '../upstream/backend.ts'
import type { Exchange } from './state.ts'

/** Returns the instance that a client has reached before; null when it has to be picked. */
export function stickyInstance({ sticky }: Backend, { headers }: IncomingMessage): Instance | null {
  return sticky === null ? null : sticky.find(cookieNamed(headers.cookie, sticky.cookie))
}

/** Returns the cookie that names the instance which answers; null when the client has it, or needs none. */
export function stickyCookie({ backend: { sticky }, instance, req, head }: Exchange): string | null {
  const key = sticky?.keyOf(instance)
  if (sticky === null || key === undefined || key === cookieNamed(req.headers.cookie, sticky.cookie)) return null
  const secure = head.headers[head.headers.indexOf('X-Forwarded-Proto') + 1] === 'https' ? '; Secure' : ''
  return `${sticky.cookie}=${key}; Path=/; HttpOnly; SameSite=Lax${secure}`
}
