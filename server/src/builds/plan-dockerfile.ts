import { posix } from 'node:path'
import type { Command } from '../platform/command.ts'
import type { BuildPlan } from './build-plan.ts'
import { dockerfileKind, imagePlan } from './image-plan.ts'
import { planProcesses } from './plan-processes.ts'
import { type AppSettings, defaultDockerfile } from './source/fairlead-json.ts'
import { failed, type PlanResult, quote } from './source/result.ts'
import type { SourceTree } from './source/tree.ts'

/** Tells the operator's users how a server comes to run containers. */
const turnOnDocker =
  'Its operator turns Docker on: FAIRLEAD_RUNTIME=process,docker, see docs/configuration.md of Fairlead.'

/**
 * Returns the plan of an app that its Dockerfile builds. Process types are those of `fairlead.json` alone: a Procfile is for
 * machines without the image.
 *
 * @param app the folder of the app
 */
export function planDockerfile(app: SourceTree, settings: AppSettings, images: boolean): PlanResult {
  const { root, build, start, health, cron, dockerfile, volumes } = settings
  const path = dockerfile?.path ?? defaultDockerfile
  if (!images) {
    return failed(
      'no_docker',
      `fairlead.json asks for a build by its Dockerfile, and this server has none. ${turnOnDocker}`,
    )
  }
  if (isMissing(app, path)) return failed('no_dockerfile', `The file ${quote(path)} is not in ${folderName(root)}.`)
  if (build !== undefined) {
    return failed('invalid_fairlead_json', 'In fairlead.json: "build" is not for apps that a Dockerfile builds.')
  }
  const prepare = (command: Command): Command => (settings.readOnly === true ? { ...command, readOnly: true } : command)
  const processes = planProcesses({ ...app, read: () => undefined }, settings, prepare)
  if (!processes.ok) return processes
  const plan: BuildPlan = {
    kind: dockerfileKind,
    build: [],
    image: { path: posix.join(root, path), target: dockerfile?.target ?? null, context: root },
    start: prepare(start === undefined ? imagePlan.start : { argv: start }),
    ...(health === undefined ? {} : { health }),
    ...processes.value,
    ...(cron === undefined ? {} : { cron }),
    ...(volumes === undefined ? {} : { volumes }),
  }
  return { ok: true, plan }
}

/** True for a file whose folder is known not to hold it: folders deep inside a repository are unknown. */
const isMissing = (app: SourceTree, path: string): boolean => !app.has(path) && app.list(posix.dirname(path)).length > 0

const folderName = (root: string): string => (root === '.' ? 'the repository' : `the folder ${quote(root)}`)
