import { readdir, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { namesOf } from '../../../server/src/runtimes/network/addresses.ts'
import { ownNamespaces } from '../../../server/src/runtimes/process/network/namespaces.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import { attackersShell, shell } from '../../harness/attacks/shell.ts'
import { system } from '../../harness/networks.ts'

/** Lists a hundred missing neighbours of each family: next to the interface, and by link-local addresses. */
const neighbours = `
import socket
name = [line.split(':')[0].strip() for line in open('/proc/net/dev').read().splitlines()[2:] if ' lo:' not in line][0]
def sends(family, addresses):
  sent = 0
  with socket.socket(family, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, 25, name.encode())  # SO_BINDTODEVICE
    sender.setsockopt(socket.SOL_SOCKET, 5, 1)  # SO_DONTROUTE
    for address in addresses:
      try:
        sender.sendto(b'x', address)
        sent += 1
      except OSError:
        pass
  return sent
scope = socket.if_nametoindex(name)
print(json.dumps([
  sends(socket.AF_INET, [('192.0.2.%d' % (index + 1), 9) for index in range(100)]),
  sends(socket.AF_INET6, [('fe80::dead:%x' % (index + 1), 9, 0, scope) for index in range(100)])]))`

/** Opens many descriptors in many processes, and then fills memory, so that the app is measured. */
const descriptors = `
import os, time
for _ in range(8000): os.open('/dev/null', os.O_RDONLY)
for _ in range(100):
  if os.fork() == 0:
    os.setsid()
    os.close(1)
    os.close(2)
    time.sleep(60)
    os._exit(0)
if os.fork() == 0:
  os.setsid()
  os.close(1)
  os.close(2)
  filled = bytearray(300_000_000)
  time.sleep(60)
  os._exit(0)
print(json.dumps('done'))`

attacks({ settings: { FAIRLEAD_FILE_SOURCES: tmpdir(), FAIRLEAD_APP_MB: '100' } }, (attack) => {
  attack(
    {
      id: 'neighbours',
      topic: 'Network',
      held: 'An app does not fill the table of neighbours, which all networks of the machine share',
      notHeld: { user: 'This is tried as root alone.' },
    },
    async (server) => {
      const app = await attackersShell(server)
      await app.python(neighbours)
      const [own] = (await ownNamespaces(namesOf(server.data))).filter(({ id }) => id === app.id)
      const table = await system('ip', '-netns', own?.name ?? '', 'neighbour', 'show', 'nud', 'all')
      const made = table.split('\n').filter((line) => /^(192\.0\.2\.|fe80::dead:)/.test(line))
      expect(made).toEqual([])
    },
  )

  attack(
    {
      id: 'log-space',
      topic: 'Limits',
      held: 'An app reserves no disk space in its log beyond what a log may take',
    },
    async (server) => {
      const app = await attackersShell(server)
      const reserved = 200_000_000
      // FALLOC_FL_KEEP_SIZE: the file keeps its length. Descriptor 1 of the app is its log.
      const outcome = await app.python(`import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
log = os.open('/proc/%d/fd/1' % os.getppid(), os.O_RDWR)
print(json.dumps([libc.fallocate(log, 1, ctypes.c_long(0), ctypes.c_long(${reserved})), os.fstat(log).st_size]))`)
      expect(outcome).toEqual([0, 0])
      const logs = join(server.data, 'logs')
      const [folder] = (await readdir(logs, { recursive: true })).filter((name) => name.endsWith(app.id))
      const log = join(logs, folder ?? '', 'runtime.log')
      await expect.poll(async () => (await stat(log)).blocks * 512, { timeout: 20_000 }).toBeLessThan(reserved / 4)
    },
  )

  attack(
    {
      id: 'unlinked-files',
      topic: 'Limits',
      held: 'Files that an app has open and has deleted count for its disk space',
    },
    async (server) => {
      const { client, project } = server.attacker
      const app = await shell(server.attacker, 'unlinked')
      const made = await app.python(`import os, time
file = open(os.environ['HOME'] + '/unlinked', 'wb')
os.unlink(file.name)
for _ in range(150): file.write(b'x' * 1_000_000)
file.flush()
if os.fork() == 0:
  os.setsid()
  os.close(1)
  os.close(2)
  time.sleep(60)
  os._exit(0)
print(json.dumps('written'))`)
      expect(made).toBe('written')
      const failure = async () =>
        (await client.deployments.get({ params: { project_id: project, id: app.id } })).failure
      await expect.poll(failure, { timeout: 40_000, interval: 500 }).toMatchObject({ code: 'too_large' })
    },
  )

  attack(
    {
      id: 'many-descriptors',
      topic: 'Limits',
      held: 'Looking at the files of an app that has hundreds of thousands open does not stop the server meanwhile',
    },
    async (server) => {
      const app = await shell(server.attacker, 'descriptors')
      const slowest = { ms: 0 }
      let isDone = false
      const asking = (async () => {
        while (!isDone) {
          const begun = performance.now()
          await fetch(`${server.server.url}/healthz`).then((answer) => answer.text())
          slowest.ms = Math.max(slowest.ms, performance.now() - begun)
          await new Promise((done) => setTimeout(done, 100))
        }
      })()
      expect(await app.python(descriptors)).toBe('done')
      await new Promise((done) => setTimeout(done, 5_000))
      isDone = true
      await asking
      const { client, project } = server.attacker
      await client.deployments.stop({ params: { project_id: project, id: app.id } })
      expect(slowest.ms).toBeLessThan(4_000)
    },
  )
})
