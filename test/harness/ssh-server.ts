import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from './ports.ts'
import type { Repository } from './repository.ts'
import { temporaryDirectory } from './temporary.ts'

const run = promisify(execFile)
const program = '/usr/sbin/sshd'

export interface SshServer extends AsyncDisposable {
  /** For `git_url`; `ssh://<user>@127.0.0.1:<port>/<folder>`. */
  readonly url: string
  /** Such as `127.0.0.1:31000`. */
  readonly host: string
  /** Accepts only the private part of this key. */
  allow(publicKey: string): Promise<void>
  changeHostKey(): Promise<void>
}

/** Returns why no ssh server can start here; null when one can. */
export async function noSshServer(): Promise<string | null> {
  return access(program).then(
    () => null,
    () => 'the package openssh-server is missing',
  )
}

/** Serves a repository by OpenSSH, as the user who runs the tests. */
export async function sshServer(repository: Pick<Repository, 'path'>): Promise<SshServer> {
  const folder = await temporaryDirectory()
  const port = await freePort()
  const file = (name: string) => join(folder.path, name)
  // The daemon needs this folder to drop its privileges. A service would make the folder.
  if (process.getuid?.() === 0) await run('mkdir', ['-p', '-m', '0755', '/run/sshd'])
  await chmod(folder.path, 0o755)
  await writeFile(file('keys'), '')
  await writeFile(
    file('config'),
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${file('host')}`,
      `AuthorizedKeysFile ${file('keys')}`,
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'PermitRootLogin yes',
      'PidFile none',
    ].join('\n'),
  )
  const makeKey = () => run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file('host')])
  const start = async () => {
    const daemon = spawn(program, ['-D', '-e', '-f', file('config')], { stdio: 'ignore' })
    while (!(await answers(port))) {
      if (daemon.exitCode !== null) throw new Error('sshd has ended')
      await sleep(20)
    }
    return daemon
  }
  const stop = async (daemon: ReturnType<typeof spawn>) => {
    const ended = once(daemon, 'exit')
    daemon.kill()
    await ended
  }
  await makeKey()
  let daemon = await start()
  return {
    url: `ssh://${userInfo().username}@127.0.0.1:${port}${repository.path}`,
    host: `127.0.0.1:${port}`,
    allow: (publicKey) => writeFile(file('keys'), `${publicKey}\n`),
    async changeHostKey() {
      await stop(daemon)
      await run('rm', ['-f', file('host'), file('host.pub')])
      await makeKey()
      daemon = await start()
    },
    async [Symbol.asyncDispose]() {
      await stop(daemon)
      await folder[Symbol.asyncDispose]()
    },
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'data')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
