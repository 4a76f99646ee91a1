import { request } from '../../platform/machine/http.ts'
import type { AskEdge } from './http-01.ts'

const timeoutMs = 3_000
const mostBytes = 10_000

/** Asks the edge of this machine at its port for HTTP, whatever DNS says: routers seldom lead a request back inside. */
export function createAskEdge(port: number): AskEdge {
  return (host, path, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const none = () => (signal.aborted ? reject(signal.reason) : resolve(null))
      const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
      const asked = request({ host: '127.0.0.1', port, path, headers: { host }, signal: limited, agent: false })
      asked.on('error', none)
      asked.on('response', (response) => {
        let text = ''
        response.setEncoding('latin1')
        response.on('data', (chunk: string) => {
          text = (text + chunk).slice(0, mostBytes)
        })
        response.on('end', () => resolve(text))
        response.on('error', none)
        response.on('close', none)
      })
      asked.end()
    })
}
