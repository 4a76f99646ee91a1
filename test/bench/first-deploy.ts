import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { buildEnvironment } from '../harness/environment.ts'
import { command } from '../harness/process.ts'
import { nodeApp, repository } from '../harness/repository.ts'
import { filesIn } from './files-in.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const full = { tries: 3 }
const brief: typeof full = { tries: 1 }
const express = fileURLToPath(new URL('../fixtures/apps/express', import.meta.url))

/**
 * Measures `fairlead deploy .` as a user's first command: in the user's repository, for an account without projects of
 * that name, with default settings, until the app answers at the printed address.
 */
export const benchFirstDeploy: Bench = async ({ signal, short }) => {
  const { tries } = short ? brief : full
  await using platform = await startPlatform({ FAIRLEAD_BUILD_ENV: JSON.stringify(buildEnvironment()) }, signal)
  const bare = await deployedOften(platform, nodeApp('Hello'), tries, signal)
  // A short round needs no registry of packages.
  const packages = short ? bare : await deployedOften(platform, await filesIn(express), tries, signal)
  return {
    rows: [
      { name: 'first: fairlead deploy . of one file', measured: `${median(bare).toFixed(1)} s` },
      { name: 'first: fairlead deploy . of an Express app', measured: `${median(packages).toFixed(1)} s` },
    ],
    notes: [
      `First: from the start of the command to the first answer of the app, median of ${tries} new projects (` +
        `${[...bare, ...packages].map((each) => each.toFixed(1)).join(', ')}), with the second that an app has to stay up. The ` +
        'packages of Express come from the registry, for the cache of a new app is empty.',
    ],
  }
}

async function deployedOften(
  platform: Platform,
  files: Readonly<Record<string, string>>,
  tries: number,
  signal: AbortSignal,
): Promise<number[]> {
  const seconds: number[] = []
  while (seconds.length < tries) seconds.push(await deployedIn(platform, files, signal))
  return seconds
}

/** Returns the seconds until the app answered; the project is deleted. */
async function deployedIn(
  { server, client, apiKey }: Platform,
  files: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<number> {
  await using source = await repository(files)
  const environment = { PATH: process.env['PATH'], FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: apiKey }
  const options = { cwd: source.path, env: environment, signal }
  const begin = performance.now()
  const { stdout } = await promisify(execFile)(process.execPath, [command, 'deploy', '.', '--json'], options)
  const { url, project_id } = JSON.parse(stdout)
  const answer = await fetch(url, { signal })
  const seconds = (performance.now() - begin) / 1000
  if (!answer.ok) throw new Error(`the app answers with the status ${answer.status}`)
  await client.projects.delete({ params: { project_id } })
  return seconds
}
