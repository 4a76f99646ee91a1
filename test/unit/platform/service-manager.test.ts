import { once } from 'node:events'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../server/src/platform/config.ts'
import {
  connectServiceManager,
  createNotifier,
  feedWatchdog,
} from '../../../server/src/platform/service-manager/notify.ts'
import { isInUnit } from '../../../server/src/platform/service-manager/systemctl.ts'
import { differingLines, settingsOf, unitsFor } from '../../../server/src/platform/service-manager/units.ts'
import { silentLogger } from '../../harness/platform/fixtures/silent-logger.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const settings = { node: '/usr/bin/node', dataDirectory: '/var/lib/fairlead', user: null, hasLowPorts: false }

describe('the units', () => {
  it.each([settings, { ...settings, user: 'fairlead' }, { ...settings, user: 'fairlead', hasLowPorts: true }])(
    'survive a round trip: %j',
    (each) => {
      expect(settingsOf(unitsFor(each)['fairlead.service'] ?? '')).toEqual(each)
    },
  )

  it('let an ordinary user listen on the web ports only where needed', () => {
    const rights = (hasLowPorts: boolean) =>
      unitsFor({ ...settings, user: 'fairlead', hasLowPorts })['fairlead.service']?.match(/^.*Capabilit.*$/gm)
    expect(rights(false)).toEqual(['CapabilityBoundingSet='])
    expect(rights(true)).toEqual([
      'CapabilityBoundingSet=CAP_NET_BIND_SERVICE',
      'AmbientCapabilities=CAP_NET_BIND_SERVICE',
    ])
  })

  it('of root have additional units for the groups of apps and of builds', () => {
    expect(Object.keys(unitsFor(settings))).toEqual([
      'fairlead.service',
      'fairlead-apps.service',
      'fairlead-builds.service',
    ])
    expect(Object.keys(unitsFor({ ...settings, user: 'fairlead' }))).toEqual(['fairlead.service'])
  })

  it.each(['/a b', '/a%h', '/a\nExecStart=/b', '/$HOME', '/a"'])(
    'are not written with the path %j',
    (dataDirectory) => {
      expect(() => unitsFor({ ...settings, dataDirectory })).toThrow('cannot be written into a unit')
    },
  )

  it('that start another program have no settings', () => {
    expect(settingsOf('[Service]\nExecStart=/usr/bin/other\n')).toBeNull()
  })
})

it('a difference shows only the lines of each side, in order', () => {
  expect(differingLines('a\nb\nc\n', 'a\nx\nc\nd\n')).toEqual(['- b', '+ x', '+ d'])
  expect(differingLines('a\n', 'a\n')).toEqual([])
})

it.each([
  ['0::/system.slice/fairlead.service\n', true],
  ['0::/system.slice/fairlead.service/a\n', true],
  ['1:name=systemd:/payload/system.slice/fairlead.service\n', true],
  ['0::/system.slice/fairlead-apps.service\n', false],
  ['4:pids:/fairlead.service\n0::/\n', false],
])('the groups %j are in the unit: %s', (cgroup, expected) => {
  expect(isInUnit(cgroup, 'fairlead.service')).toBe(expected)
})

describe('the watchdog', () => {
  const feed = (check: (signal: AbortSignal) => Promise<unknown>, alive: () => Promise<void>, signal: AbortSignal) =>
    feedWatchdog({ periodMs: 30, check, alive, logger: silentLogger, signal })

  it.each([
    ['succeeds', () => Promise.resolve()],
    ['fails', () => Promise.reject(new Error('the database is away'))],
  ])('is fed while a check %s', async (_, check) => {
    const stop = new AbortController()
    let fed = 0
    await feed(
      check,
      async () => {
        if (++fed === 3) stop.abort()
      },
      stop.signal,
    )
    expect(fed).toBe(3)
  })

  it('is not fed after a stop that begins during a check', async () => {
    const stop = new AbortController()
    const stops = () => Promise.resolve(stop.abort())
    await feed(stops, () => Promise.reject(new Error('fed')), stop.signal)
  })

  it('is not fed by a check that does not end', async () => {
    const stop = new AbortController()
    let asked = 0
    const hanging = async (signal: AbortSignal) => {
      if (++asked === 3) stop.abort()
      await once(signal, 'abort')
    }
    await feed(hanging, () => Promise.reject(new Error('fed')), stop.signal)
    expect(asked).toBe(3)
  })
})

describe('notifications', () => {
  /** A replacement for systemd-notify that records its arguments, one line per call. */
  async function recorder() {
    const directory = await temporaryDirectory()
    const file = join(directory.path, 'sent')
    const program = join(directory.path, 'systemd-notify')
    await writeFile(program, `#!/bin/sh\nIFS='|'\necho "$*|$NOTIFY_SOCKET" >>${file}\n`)
    await chmod(program, 0o755)
    const sent = async () => (await readFile(file, 'utf8').catch(() => '')).split('\n').slice(0, -1)
    return {
      path: `${directory.path}:/usr/bin:/bin`,
      sent,
      [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
    }
  }

  it('are sent in order, and a status is one line', async () => {
    await using program = await recorder()
    const notifier = createNotifier({ socket: '/run/notify', path: program.path, logger: silentLogger })
    await Promise.all([
      notifier.reloading(),
      notifier.ready('Ready\nMAINPID=1'),
      notifier.stopping(),
      notifier.extend(60_000),
    ])
    const [reloading, ready, stopping, extended] = await program.sent()
    expect(reloading).toMatch(/^RELOADING=1\|MONOTONIC_USEC=\d+\|\/run\/notify$/)
    expect(ready).toBe(`READY=1|MAINPID=${process.pid}|STATUS=Ready MAINPID=1|/run/notify`)
    expect(stopping).toBe('STOPPING=1|STATUS=Stopping|/run/notify')
    expect(extended).toBe('EXTEND_TIMEOUT_USEC=60000000|/run/notify')
  })

  it('are not sent where no service manager listens', async () => {
    await using program = await recorder()
    const notifier = createNotifier({ socket: undefined, path: program.path, logger: silentLogger })
    await notifier.ready('Ready')
    expect(await program.sent()).toEqual([])
  })

  it('that cannot be sent are logged once and fail nothing', async () => {
    const logged: unknown[] = []
    const logger = { warn: (...args: unknown[]) => void logged.push(args) }
    const notifier = createNotifier({ socket: '/run/notify', path: '/nowhere', logger })
    await notifier.ready('Ready')
    await notifier.stopping()
    expect(logged).toHaveLength(1)
  })

  it('of a server that answers feed the watchdog until the server stops, and show why a start failed', async () => {
    await using program = await recorder()
    const server = createServer((_request, response) => response.writeHead(503).end()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const environment = { PATH: program.path, NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '30000' }
    const manager = connectServiceManager(loadConfig({}, environment), silentLogger)
    await expect(manager.failed(new Error('no database'))).rejects.toThrow('no database')
    await manager.ready(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    await expect.poll(program.sent).toContain('WATCHDOG=1|/run/notify')
    await manager.stopping()
    server.close()
    expect((await program.sent())[0]).toBe('STATUS=The start failed: no database|/run/notify')
    expect((await program.sent()).at(-1)).toBe('STOPPING=1|STATUS=Stopping|/run/notify')
  })
})
