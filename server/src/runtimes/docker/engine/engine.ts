import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { commonVersion, neededVersion, type VersionRange } from './api-version.ts'
import { EngineError, isAway, isSilent } from './error.ts'
import { type EngineRequest, nameOf, receive, send, sendUpgrade } from './transport.ts'

/** A Docker engine at a socket of this machine. Every method throws an `EngineError`, or the reason of an aborted signal. */
export interface Engine {
  /** The path of its socket. */
  readonly socket: string
  /** Asks for the engine's versions; the one of its API that both know is `api`. */
  version(): Promise<EngineVersion>
  /** Sends a request and returns the JSON of the answer; null for an answer without a body. */
  call<T>(request: EngineRequest): Promise<T>
  /** Sends a request and returns the answer as a stream, which the caller reads to its end or destroys. */
  open(request: EngineRequest): Promise<IncomingMessage>
  /** Sends a request whose connection becomes the input and output of a program. */
  upgrade(request: EngineRequest): Promise<Duplex>
}

export interface EngineVersion extends VersionRange {
  /** The version of the engine: `20.10.24+dfsg1`. */
  readonly Version: string
  readonly Os: string
  readonly Arch: string
  readonly api: string
}

/**
 * @param socket the absolute path of the engine's Unix socket
 * @param patienceMs how long an engine may take to say its version; one that hangs is not asked again for as long
 */
export function createEngine(socket: string, patienceMs = 10_000): Engine {
  let agreed: Promise<EngineVersion> | null = null

  const version = async (): Promise<EngineVersion> => {
    const asked: EngineRequest = { method: 'GET', path: ['version'], timeoutMs: patienceMs }
    const found = JSON.parse(await receive(socket, null, asked)) as Omit<EngineVersion, 'api'>
    const api = commonVersion(found)
    if (api !== null) return { ...found, api }
    const range = `${found.MinAPIVersion ?? '?'} to ${found.ApiVersion}`
    throw new EngineError(nameOf(asked), 400, `its API has the versions ${range}; Fairlead needs ${neededVersion}`)
  }

  /** Asked for once, and again after the engine was away: another one may have taken its place. */
  const agree = async (): Promise<string> => {
    agreed ??= version()
    const asked = agreed
    const forget = () => {
      if (agreed === asked) agreed = null
    }
    try {
      return (await asked).api
    } catch (error) {
      // One that hangs is asked by one call at a time, and not by each: all others fail at once.
      if (isSilent(error)) setTimeout(forget, patienceMs).unref()
      else forget()
      throw error
    }
  }
  const withVersion = async <T>(use: (api: string) => Promise<T>): Promise<T> => {
    const api = await agree()
    try {
      return await use(api)
    } catch (error) {
      if (isAway(error)) agreed = null
      throw error
    }
  }
  return {
    socket,
    version,
    open: (request) => withVersion((api) => send(socket, api, request)),
    upgrade: (request) => withVersion((api) => sendUpgrade(socket, api, request)),
    async call<T>(request: EngineRequest): Promise<T> {
      const text = await withVersion((api) => receive(socket, api, request))
      try {
        return (text === '' ? null : JSON.parse(text)) as T
      } catch (error) {
        throw new EngineError(nameOf(request), null, 'the answer ended early', { cause: error })
      }
    },
  }
}
