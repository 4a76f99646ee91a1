import type { Command } from '../../../platform/command.ts'
import type { DetectorSource } from '../detector.ts'
import { type NodeApp, planProgram } from './start.ts'

/**
 * Returns the command that runs the `build` script. A member of a workspace may use what other members build, so that theirs
 * run before it where the tool of the workspace knows their order: Turborepo, or pnpm.
 */
export function planBuildScript(
  { repository, settings }: Pick<DetectorSource, 'repository' | 'settings'>,
  app: NodeApp,
): Command {
  const { manager, folder } = app.installing
  const { name } = app.package
  const isMember = folder === '.' && settings.root !== '.' && name !== undefined && /^[@\w][\w@/.-]*$/.test(name)
  if (isMember && repository.has('turbo.json') && /"turbo"\s*:/.test(repository.read('package.json') ?? '')) {
    const command = planProgram(app, ['turbo', 'run', 'build', `--filter=${name}`])
    return { ...command, env: { ...manager.env, TURBO_TELEMETRY_DISABLED: '1', ...command.env } }
  }
  if (isMember && manager.name === 'pnpm') {
    return { argv: ['pnpm', `--filter=${name}...`, 'run', 'build'], env: manager.env }
  }
  return { argv: [manager.name, 'run', 'build'], env: manager.env }
}
