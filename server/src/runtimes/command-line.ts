import { folderRunnerName, phpServerName, pythonLockName } from '../platform/toolchain.ts'

/** Returns a command of a build plan as its owner would write it, without the wrapper programs from Fairlead. */
export function commandLine(argv: readonly string[]): string {
  const [program = '', ...rest] = argv
  if (program === folderRunnerName) {
    const [folder = '.', ...inner] = rest
    return `${commandLine(inner)} (in the folder ${folder})`
  }
  if (program === '/bin/sh' && rest[0] === '-c') return rest.slice(1).join(' ')
  if (program === pythonLockName) return `pip install from ${rest.join(' ')}`
  if (program === phpServerName) return "PHP's own server"
  return argv.join(' ')
}
