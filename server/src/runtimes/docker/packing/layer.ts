import type { Readable } from 'node:stream'
import type { Waiters } from '../calls/waiters.ts'
import type { Engine } from '../engine/engine.ts'
import { commandLabel, waiterLabel } from '../names.ts'

export interface LayerParts {
  readonly engine: Engine
  readonly waiters: Pick<Waiters, 'during'>
  /** Called right before something is made or removed. */
  readonly fence: () => void
}

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
 */
export const addLayer = ({ waiters, ...parts }: LayerParts, layer: NewLayer, signal: AbortSignal): Promise<void> =>
  waiters.during('layer', (labels) => commit(parts, layer, labels, signal))

/** The labels of a container that is waited for, as the image has them that is made of it. */
const ofNone = { [commandLabel]: '', [waiterLabel]: '' }

async function commit(
  { engine, fence }: Omit<LayerParts, 'waiters'>,
  { from, name, files, settings: { Labels, ...settings } }: NewLayer,
  waited: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const [repo, tag] = name.split(':')
  fence()
  const body = {
    ...{ Image: from, Entrypoint: ['/none'], HostConfig: { NetworkMode: 'none' } },
    ...settings,
    Labels: { ...Labels, ...waited },
  }
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
    await engine.call({ method: 'POST', path: ['commit'], query, body: { Labels: ofNone }, signal, timeoutMs: 0 })
  } catch (error) {
    // The engine saw the end of a request alone.
    throw files.errored ?? error
  } finally {
    files.destroy()
    await engine.call({ method: 'DELETE', path: ['containers', Id], query: { force: true, v: true } })
  }
}
