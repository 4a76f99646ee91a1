import { hangingStart } from '../../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'

export const apps = ['left', 'right'] as const
export type AppName = (typeof apps)[number]

const slowBuild = {
  ...nodeApp('left'),
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': 'setTimeout(() => {}, 700)',
}

/** The repositories of the load: one for each app, and three more for `left`. */
export interface Sources extends AsyncDisposable {
  url(name: AppName | 'broken' | 'hanging' | 'building'): string
}

export async function createSources(): Promise<Sources> {
  await using cleanup = new AsyncDisposableStack()
  const all = new Map<string, Repository>()
  for (const app of apps) all.set(app, cleanup.use(await repository(nodeApp(app))))
  all.set('broken', cleanup.use(await repository({ 'README.txt': 'nothing to start' })))
  all.set('hanging', cleanup.use(await repository(hangingStart)))
  all.set('building', cleanup.use(await repository(slowBuild)))
  const owned = cleanup.move()
  return { url: (name) => String(all.get(name)?.url), [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
