import { releaseApp, webSocketLibrary } from './releases.ts'
import { repository } from './repository.ts'

/**
 * Makes a repository whose app names its instance in `X-Instance` and ends on `/exit`. On `/fail-twice` it ends and
 * then fails to start twice. It has a worker that prints `working`.
 */
export async function replicatedApp() {
  return repository({ ...(await webSocketLibrary()), ...replicatedRelease(1) })
}

/** The app ends at once for each character of a file that `/fail-twice` wrote. */
const failing = `const fs = require('node:fs')
const failures = process.env.HOME + '/failures'
const left = fs.existsSync(failures) ? fs.readFileSync(failures, 'utf8') : ''
if (left !== '') {
  fs.writeFileSync(failures, left.slice(1))
  console.log('fails to start')
  process.exit(1)
}
`

/** The files of one release of that app. */
export function replicatedRelease(release: number, more: Record<string, string> = {}): Record<string, string> {
  const files = releaseApp(release)
  const server = (files['server.js'] ?? '').replace(
    `  response.setHeader('X-Release', ${release})`,
    `  response.setHeader('X-Release', ${release})
  response.setHeader('X-Instance', instance)
  if (request.url === '/exit') process.exit(1)
  if (request.url === '/fail-twice') {
    require('node:fs').writeFileSync(process.env.HOME + '/failures', 'xx')
    process.exit(1)
  }`,
  )
  return {
    ...files,
    'server.js': `const instance = require('node:crypto').randomUUID()\n${failing}${server}`,
    'worker.js': "console.log('working'); setInterval(() => {}, 1000)",
    Procfile: 'web: node server.js\nworker: node worker.js',
    ...more,
  }
}

/** Returns the instances that answer `count` consecutive requests. */
export async function instancesAt(url: string, count = 12): Promise<Set<string>> {
  const seen = new Set<string>()
  for (let request = 0; request < count; request += 1) {
    const response = await fetch(url)
    await response.arrayBuffer()
    seen.add(response.headers.get('x-instance') ?? `status ${response.status}`)
  }
  return seen
}
