import { once } from 'node:events'
import { cp } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { BodyInput } from '@fairlead/server/client'
import { startPlatform } from '../bench/platform.ts'
import { columns } from '../bench/row.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { noDocker, startDockerd, type TestDockerd } from '../harness/docker.ts'
import { noRegistry, startRegistry } from '../harness/registry.ts'
import { repository } from '../harness/repository.ts'
import { baseImages, importDebian } from './base-images.ts'

/*
 * `npm run corpus:dockerfiles`: makes base images of Debian's packages, deploys a small program in each of several
 * languages by a Dockerfile, and one of the resulting images by its digest from a registry of this machine. Prints a
 * table. The exit status is 1 when a program does not run.
 */

/** The folders in `dockerfiles/`, with the beginnings of their pages. */
const apps = {
  go: 'Hello from Go go1',
  ruby: 'Hello from Ruby 3',
  php: 'Hello from PHP 8',
  rust: 'Hello from Rust',
} as const

interface Line {
  readonly name: string
  readonly seconds: number
  /** `running`, or the failure. */
  readonly outcome: string
  readonly isShown: boolean
}

const interrupt = new AbortController()
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())
process.exitCode = await main(interrupt.signal)

async function main(signal: AbortSignal): Promise<number> {
  const why = (await noDocker()) ?? (await noRegistry())
  if (why !== null) {
    console.error(`No containers can be run here: ${why}.`)
    return 1
  }
  await using dockerd = await startDockerd()
  console.log(`Docker ${(await dockerd.engine.version()).Version}`)
  for (const image of baseImages) {
    const begin = performance.now()
    const bytes = await importDebian(dockerd.engine, image, signal)
    console.log(`${image.name}: ${Math.round(bytes / 1e6)} MB, ${secondsSince(begin).toFixed(1)} s`)
  }
  const ended = once(signal, 'abort').then((): Line[] => [])
  const lines = await Promise.race([deployAll(dockerd), ended])
  const cells = lines.map(({ name, seconds, outcome, isShown }) => [
    name,
    seconds.toFixed(1),
    outcome,
    isShown ? 'ok' : 'no',
  ])
  console.log(`\n${columns([['name', 'seconds', 'outcome', 'page'], ...cells])}\n`)
  const good = lines.filter(({ isShown }) => isShown).length
  console.log(`${good} of ${lines.length} run.`)
  return lines.length > 0 && good === lines.length ? 0 : 1
}

async function deployAll(dockerd: TestDockerd): Promise<Line[]> {
  await using registry = await startRegistry()
  await using platform = await startPlatform({
    DOCKER_HOST: dockerd.host,
    FAIRLEAD_BASE_IMAGES: baseImages.map(({ name }) => name).join(','),
  })
  const { client, projectId } = platform
  const deploy = async (body: BodyInput<'deployments.create'>, text: string) => {
    const begin = performance.now()
    const made = await deployAndSettle(client, projectId, body)
    const seconds = secondsSince(begin)
    const outcome = made.failure === null ? made.status : `${made.failure.code}: ${made.failure.message}`
    const page = made.failure === null ? await (await fetch(made.url)).text() : ''
    const line = { name: body.name, seconds, outcome, isShown: page.startsWith(text) }
    console.error(`${line.name}: ${outcome}, ${seconds.toFixed(1)} s, "${page.slice(0, 100)}"`)
    return { line, made }
  }
  const lines: Line[] = []
  for (const [name, text] of Object.entries(apps)) {
    await using source = await repository({})
    await cp(fileURLToPath(new URL(`./dockerfiles/${name}/`, import.meta.url)), source.path, { recursive: true })
    await source.commit({})
    // The first build gets its base image, the second build has the layers of the first.
    const { line, made } = await deploy({ name, git_url: source.url }, text)
    lines.push(line)
    await source.commit({ 'README.md': 'A change.\n' })
    lines.push({ ...(await deploy({ name, git_url: source.url }, text)).line, name: `${name}, again` })
    if (name !== 'go') continue
    const image = `${registry.host}/hello@${await registry.push(dockerd.engine, await imageOf(dockerd, made.id), 'hello:1')}`
    lines.push((await deploy({ name: 'image by digest', image }, text)).line)
  }
  return lines
}

/** Returns the server's tag for the image of a release. */
async function imageOf({ engine }: TestDockerd, deployment: string): Promise<string> {
  const images = await engine.call<{ RepoTags: string[] | null }[]>({ method: 'GET', path: ['images', 'json'] })
  const tags = images.flatMap(({ RepoTags }) => RepoTags ?? [])
  const found = tags.find((tag) => tag.endsWith(`:${deployment.toLowerCase()}`))
  if (found === undefined) throw new Error(`no image of ${deployment} is kept: ${tags.join(', ')}`)
  return found
}

function secondsSince(begin: number): number {
  return (performance.now() - begin) / 1000
}
