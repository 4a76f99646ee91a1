import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { attackersShell, shell } from '../../harness/attacks/shell.ts'
import { processesOf } from '../../harness/deployments.ts'
import { prefix } from '../../harness/temporary.ts'

/**
 * Numbers of system calls by architecture (asm/unistd.h), with arguments that would have an effect where they are
 * allowed.
 */
const systemCalls = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
x64 = os.uname().machine == 'x86_64'
numbers = {
  'mount': (165, 40), 'umount2': (166, 39), 'pivot_root': (155, 41), 'open_tree': (428, 428), 'fsopen': (430, 430),
  'chroot': (161, 51), 'setns': (308, 268), 'unshare': (272, 97), 'bpf': (321, 280), 'perf_event_open': (298, 241),
  'init_module': (175, 105), 'finit_module': (313, 273), 'delete_module': (176, 106), 'kexec_load': (246, 104),
  'reboot': (169, 142), 'swapon': (167, 224), 'syslog': (103, 116), 'userfaultfd': (323, 282), 'keyctl': (250, 219),
  'add_key': (248, 217), 'request_key': (249, 218), 'io_uring_setup': (425, 425), 'open_by_handle_at': (304, 265),
  'quotactl': (179, 60), 'acct': (163, 89), 'settimeofday': (164, 170), 'sethostname': (170, 161),
  'pidfd_getfd': (438, 438), 'move_pages': (279, 239), 'mbind': (237, 235),
}
got = {}
for name, pair in numbers.items():
  ctypes.set_errno(0)
  result = libc.syscall(pair[0 if x64 else 1], 0x10000000 if name == 'unshare' else 0, 0, 0, 0, 0)
  got[name] = 'done' if result >= 0 else ctypes.get_errno()
# CLONE_NEWUSER | SIGCHLD, and the same by clone3 with a struct clone_args.
got['clone'] = 'done' if libc.syscall(56 if x64 else 220, 0x10000011, 0, 0, 0, 0) >= 0 else ctypes.get_errno()
got['clone3'] = 'done' if libc.syscall(435, (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88) >= 0 else ctypes.get_errno()
for family in (17, 38, 40):
  got['socket %d' % family] = 'done' if libc.socket(family, 1, 0) >= 0 else ctypes.get_errno()
print(json.dumps(got))`

const EPERM = 1
const ENOSYS = 38

attacks({ settings: { FAIRLEAD_FILE_SOURCES: tmpdir() } }, (attack) => {
  attack(
    {
      id: 'system-calls',
      topic: 'Processes',
      held: 'An app makes no mount, namespace, key, kernel program, io_uring or other call that containers may not make',
    },
    async (server) => {
      const got = (await (await attackersShell(server)).python(systemCalls)) as Record<string, number | 'done'>
      const { clone3, ...others } = got
      expect(clone3).toBe(ENOSYS)
      expect(Object.entries(others).filter(([, outcome]) => outcome !== EPERM && outcome !== ENOSYS)).toEqual([])
    },
  )

  attack(
    {
      id: 'privileges',
      topic: 'Processes',
      held: 'An app has no capability and gains none, neither by a setuid program nor in a user namespace',
    },
    async (server) => {
      const app = await attackersShell(server)
      const { stdout } = await app.run('cat', '/proc/self/status')
      expect(stdout).toMatch(/^NoNewPrivs:\t1$/m)
      expect(stdout).toMatch(/^Seccomp:\t2$/m)
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
        expect(stdout).toMatch(new RegExp(`^${set}:\\t0+$`, 'm'))
      }
      for (const argv of [
        ['mount', '-t', 'tmpfs', 'x', '/mnt'],
        ['su', '-c', 'id'],
        ['unshare', '--user', '--map-root-user', 'id'],
        ['python3', '-c', 'import os; os.setuid(0)'],
      ]) {
        expect((await app.run(...argv)).code, argv.join(' ')).not.toBe(0)
      }
    },
  )

  attack(
    {
      id: 'other-processes',
      topic: 'Processes',
      held: 'An app sees, signals and traces no process but its own',
    },
    async (server) => {
      const app = await attackersShell(server)
      const others = await shell(server.victim, 'victim', { TOKEN: 'the-victims-secret' })
      const [pid] = await processesOf(others.id)
      const seen = (await app.node(`
        const fs = require('node:fs')
        const read = (pid, name) => { try { return fs.readFileSync('/proc/' + pid + '/' + name, 'latin1') } catch { return '' } }
        return fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))
          .map((pid) => [Number(pid), read(pid, 'cmdline'), read(pid, 'environ')])`)) as [number, string, string][]
      expect(seen.length).toBeLessThan(20)
      const text = JSON.stringify(seen)
      for (const foreign of ['the-victims-secret', 'postgres', others.id, `${basename(server.data)}/secret`]) {
        expect(text).not.toContain(foreign)
      }
      const signals = (await app.node(`
        const attempt = (pid, signal) => { try { process.kill(pid, signal); return 'done' } catch (error) { return error.code } }
        return [attempt(1, 'SIGUSR1'), attempt(${pid}, 0), attempt(${server.server.child.pid}, 0)]`)) as string[]
      // The first process of its namespace is bubblewrap: a signal to the user's own bubblewrap has no effect.
      expect(signals.slice(1)).toEqual(['ESRCH', 'ESRCH'])
      const traced = `import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps([libc.ptrace(16, pid, 0, 0) for pid in (${pid}, ${server.server.child.pid})]))`
      expect(await app.python(traced)).toEqual([-1, -1])
    },
  )

  attack(
    {
      id: 'machine-files',
      topic: 'Files',
      held: 'An app reads nothing of the machine but its programs and their settings, even what every user can read',
    },
    async (server) => {
      const folder = await mkdtemp(`/var/tmp/${prefix}`)
      await writeFile(join(folder, 'readable'), 'for every user', { mode: 0o644 })
      await chmod(folder, 0o755)
      try {
        const app = await attackersShell(server)
        const paths = [
          join(folder, 'readable'),
          '/etc/shadow',
          '/etc/ssh',
          '/etc/machine-id',
          '/root',
          '/home',
          '/srv',
          // Of /var the sandbox has at most the folder of Debian's gems.
          '/var/cache',
          '/var/lib/dpkg',
          '/var/log',
          '/var/tmp',
        ]
        const tried = await app.node(`
          const fs = require('node:fs')
          return ${JSON.stringify(paths)}.map((path) => {
            try { return fs.statSync(path).isDirectory() ? fs.readdirSync(path).join() : fs.readFileSync(path, 'utf8') } catch (error) { return error.code }
          })`)
        expect(tried).toEqual(paths.map(() => expect.stringMatching(/^(ENOENT|EACCES)$/)))
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  )

  attack(
    {
      id: 'writes-outside',
      topic: 'Files',
      held: 'An app writes to its own folders alone, and makes no device; what it writes to /tmp is gone with it',
    },
    async (server) => {
      const app = await attackersShell(server)
      const name = `fairlead-planted-${server.mode}`
      const folders = [
        '/',
        '/etc',
        '/usr',
        '/usr/local/bin',
        '/opt',
        '/dev',
        '/sys',
        '/proc',
        '/var/tmp',
        '/bin',
        server.data,
      ]
      const files = ['kernel/core_pattern', 'kernel/modprobe', 'vm/drop_caches', 'net/ipv4/ip_forward'].map(
        (file) => `/proc/sys/${file}`,
      )
      const targets = [
        ...folders.map((folder) => join(folder, name)),
        ...files,
        '/proc/sysrq-trigger',
        '/sys/kernel/uevent_helper',
      ]
      const tried = (await app.node(`
        const fs = require('node:fs')
        return ${JSON.stringify(targets)}.map((path) => { try { fs.writeFileSync(path, 'x'); return path } catch (error) { return error.code } })`)) as string[]
      expect(tried.filter((outcome) => outcome.startsWith('/'))).toEqual([])
      const devices = (await app.python(`import os, stat
def attempt(path):
  try:
    os.mknod(path, 0o666 | stat.S_IFBLK, os.makedev(8, 0))
    return path
  except OSError as error:
    return error.errno
print(json.dumps([attempt(folder + '/disk') for folder in ('.', '/tmp', '/dev/shm')]))`)) as unknown[]
      expect(devices).toEqual([EPERM, EPERM, EPERM])
      await app.run('touch', `/tmp/${name}`, `/dev/shm/${name}`)
      for (const folder of ['/tmp', '/dev/shm', '/var/tmp']) expect(await readdir(folder)).not.toContain(name)
    },
  )

  attack(
    {
      id: 'shared-memory',
      topic: 'Limits',
      held: 'Shared memory and message queues of an app are its own, and are gone with it',
    },
    async (server) => {
      const { client, project } = server.attacker
      const app = await shell(server.attacker, 'memory')
      const key = 0x51_00_00 + 2 * process.pid + (server.mode === 'root' ? 1 : 0)
      const made = await app.python(`import ctypes
libc = ctypes.CDLL(None, use_errno=True)
open('/dev/shm/fairlead-left-${server.mode}', 'w').write('x' * 1000)
print(json.dumps([libc.shmget(${key}, 4096, 0o1666), libc.msgget(${key}, 0o1666), libc.semget(${key}, 1, 0o1666)]))`)
      expect(made).toEqual([expect.any(Number), expect.any(Number), expect.any(Number)])
      const other = await attackersShell(server)
      const lists = async () =>
        (await Promise.all(['shm', 'msg', 'sem'].map((kind) => readFile(`/proc/sysvipc/${kind}`, 'utf8')))).join('')
      expect((await lists()).split(/\s+/)).not.toContain(String(key))
      expect((await other.run('cat', '/proc/sysvipc/shm')).stdout.split(/\s+/)).not.toContain(String(key))
      await client.deployments.stop({ params: { project_id: project, id: app.id } })
      await expect.poll(() => processesOf(app.id)).toEqual([])
      expect(await readdir('/dev/shm')).not.toContain(`fairlead-left-${server.mode}`)
      expect((await lists()).split(/\s+/)).not.toContain(String(key))
    },
  )

  attack(
    {
      id: 'hidden-memory',
      topic: 'Limits',
      held: 'Memory of files in memory counts for an app, also when no process has it mapped',
    },
    async (server) => {
      const app = await shell(server.attacker, 'hidden-memory')
      // Twice what the plan allows.
      const filled = app.run(
        'python3',
        '-c',
        `import os, time
fds = [os.memfd_create('x') for _ in range(1024)]
for fd in fds: os.write(fd, b'x' * 1000000)
time.sleep(5)
print('kept')`,
      )
      const outcome = await filled.then(
        ({ stdout }) => stdout.trim(),
        () => 'ended',
      )
      expect(outcome).not.toBe('kept')
    },
  )

  attack(
    {
      id: 'system-v',
      topic: 'Limits',
      needsNetworks: true,
      held: 'System V memory, semaphores and queues of an app are limited, also those that no process uses',
    },
    async (server) => {
      const app = await shell(server.attacker, 'system-v')
      const made = await app.python(`import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def most(call):
  count = 0
  while count < 1000 and call() >= 0: count += 1
  return count
print(json.dumps([
  most(lambda: libc.shmget(0, 20_000_000, 0o600)),
  most(lambda: libc.semget(0, 200, 0o600)),
  most(lambda: libc.msgget(0, 0o600))]))`)
      expect(made).toEqual([3, 128, 128])
    },
  )

  attack(
    {
      id: 'secret-memory',
      topic: 'Limits',
      held: 'An app gets no memory that counts for no process and as no file (memfd_secret)',
    },
    async (server) => {
      const app = await attackersShell(server)
      const outcome = await app.python(`import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps([libc.syscall(447, 0), errno.errorcode[ctypes.get_errno()]]))`)
      expect(outcome).toEqual([-1, 'ENOSYS'])
    },
  )

  attack(
    {
      id: 'variables-outside',
      topic: 'Processes',
      held: 'A variable of an app, such as LD_PRELOAD, has no effect on the programs that start it outside its sandbox',
    },
    async (server) => {
      const name = `fairlead-debug-${server.mode}`
      // With these variables, the dynamic linker of every program writes a file, wherever the program may write.
      const variables = { LD_DEBUG: 'files', LD_DEBUG_OUTPUT: `/var/tmp/${name}` }
      const app = await shell(server.attacker, 'variables', variables)
      expect(app.url).toBeTruthy()
      const written = (await readdir('/var/tmp')).filter((file) => file.startsWith(name))
      for (const file of written) await rm(join('/var/tmp', file))
      expect(written).toEqual([])
    },
  )

  attack(
    {
      id: 'foreign-mark',
      topic: 'Recovery',
      held: 'Processes that carry the id of another deployment are not taken for it, and do not delay its end',
    },
    async (server) => {
      const { client, project } = server.victim
      const victim = await shell(server.victim, 'marked')
      const app = await attackersShell(server)
      const pids = (await app.node(`
        const env = { ...process.env, FAIRLEAD_DEPLOYMENT_ID: '${victim.id}' }
        const { spawn } = require('node:child_process')
        const children = Array.from({ length: 20 }, () => spawn('sleep', ['600'], { env, detached: true, stdio: 'ignore' }))
        for (const child of children) child.unref()
        return children.map((child) => child.pid)`)) as number[]
      await client.deployments.stop({ params: { project_id: project, id: victim.id } })
      await expect.poll(() => processesOf(victim.id)).toHaveLength(20)
      await app.run('kill', ...pids.map(String))
    },
  )
})
