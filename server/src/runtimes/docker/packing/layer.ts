import type { Readable } from 'node:stream'
import type { Engine } from '../engine/engine.ts'

/** An image that is made of another one and of files. */
export interface NewLayer {
  /** The image below, by its name or id. */
  readonly from: string
  /** `repository:tag` */
  readonly name: string
  /** A tar archive of the files, from the top. Their owners and rights are those that it says. */
  readonly files: Readable
  /** Settings that its containers have unless they say otherwise, in the engine's own words. */
  readonly settings: { readonly Labels: Readonly<Record<string, string>>; readonly [name: string]: unknown }
}

/**
 * Makes an image without running anything: the files are put into a container that is never started, and that is kept as an image. So
 * no builder is needed, which engines of the future may lack, and no layer is made twice.
 *
 * @param fence called right before something is made or removed
 */
export async function addLayer(
  engine: Engine,
  { from, name, files, settings }: NewLayer,
  fence: () => void,
  signal: AbortSignal,
): Promise<void> {
  const [repo, tag] = name.split(':')
  fence()
  const body = { Image: from, Entrypoint: ['/none'], HostConfig: { NetworkMode: 'none' }, ...settings }
  const { Id } = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body, signal })
  try {
    await engine.call({
      method: 'PUT',
      path: ['containers', Id, 'archive'],
      query: { path: '/' },
      upload: files,
      signal,
      timeoutMs: 0,
    })
    fence()
    const query = { container: Id, repo, tag }
    await engine.call({ method: 'POST', path: ['commit'], query, body: {}, signal, timeoutMs: 0 })
  } catch (error) {
    // The engine saw the end of a request alone.
    throw files.errored ?? error
  } finally {
    files.destroy()
    await engine.call({ method: 'DELETE', path: ['containers', Id], query: { force: true, v: true } })
  }
}
