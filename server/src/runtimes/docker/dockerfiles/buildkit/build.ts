import type { Readable } from 'node:stream'
import type { Engine } from '../../engine/engine.ts'
import { readJsonLines } from '../../engine/streams.ts'
import { createProgress, type FailedImage } from './progress.ts'
import { type BuildAnswers, openSession } from './session.ts'

/** A build of one Dockerfile. */
export interface BuildRequest extends BuildAnswers {
  /** A tar archive. */
  readonly context: Readable
  /** The path of the Dockerfile in the archive. */
  readonly dockerfile: string
  /** The stage to build; null for the last one. */
  readonly target: string | null
  readonly tag: string
  /** They take the place of those that the Dockerfile gives the same names. */
  readonly labels: Readonly<Record<string, string>>
  /** Arguments that leave no trace in images: those for proxies, which every Dockerfile has. */
  readonly proxies: Readonly<Record<string, string>>
}

/** The end of a build. `message` is BuildKit's own. */
export type BuildOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false
      readonly message: string
      readonly code: number
      /** The image of a registry that it could not look at; null for other failures. */
      readonly image: FailedImage | null
    }

interface Message {
  readonly id?: string
  readonly aux?: unknown
  readonly error?: string
}

/**
 * Builds an image with BuildKit. Steps have the network of the daemon.
 *
 * @param say receives what the build prints, whole lines as a rule
 * @throws EngineError when the daemon refuses the build or ends; the error of `credentialsFor`
 */
export async function buildImage(
  engine: Pick<Engine, 'open' | 'upgrade'>,
  request: BuildRequest,
  say: (text: string) => Promise<unknown>,
  aborted: AbortSignal,
): Promise<BuildOutcome> {
  const session = await openSession(engine, request, aborted)
  const signal = AbortSignal.any([aborted, session.failed])
  try {
    const answer = await engine.open({
      method: 'POST',
      path: ['build'],
      query: {
        version: '2',
        session: session.id,
        dockerfile: request.dockerfile,
        target: request.target ?? undefined,
        t: request.tag,
        labels: request.labels,
        buildargs: request.proxies,
        networkmode: 'host',
      },
      upload: request.context,
      signal,
      timeoutMs: 0,
    })
    const progress = createProgress()
    let failure: string | null = null
    for await (const { id, aux, error } of readJsonLines<Message>(answer)) {
      if (error !== undefined) failure = error
      if (id !== 'moby.buildkit.trace' || typeof aux !== 'string') continue
      const lines = progress.read(Buffer.from(aux, 'base64'))
      if (lines !== '') await say(lines)
    }
    await say(progress.rest())
    signal.throwIfAborted()
    if (failure === null) return { ok: true }
    return { ok: false, message: failure, code: exitCodeIn(failure), image: progress.failedImage() }
  } catch (error) {
    session.failed.throwIfAborted()
    throw error
  } finally {
    session.end()
  }
}

/** Returns the exit status of the step that failed, as BuildKit tells it at the end of its message; 1 without one. */
function exitCodeIn(message: string): number {
  const code = Number(/exit code: (\d{1,3})$/.exec(message.trim())?.[1] ?? 1)
  return code === 0 ? 1 : code
}
