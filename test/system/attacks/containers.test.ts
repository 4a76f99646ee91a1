import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { appLabel, commandLabel, releaseLabel, serverLabel } from '../../../server/src/runtimes/docker/names.ts'
import { interfaceName, namesOf } from '../../../server/src/runtimes/network/addresses.ts'
import { removeHostTable, setHostTable } from '../../../server/src/runtimes/network/host-table.ts'
import { findNetworkTools } from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import type { Claim } from '../../harness/attacks/claim.ts'
import { type Containers, type HostileContainer, openContainers } from '../../harness/attacks/containers.ts'
import { noDocker } from '../../harness/docker.ts'
import { hostService, noNetworks, noReach, system, testNetwork, trackedConnections } from '../../harness/networks.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { dataDirectoryOf } from '../../harness/runtimes/docker/bridges.ts'

/*
 * Hostile images, in containers of a server that runs as root. Their programs run as root in the container, which an
 * image may choose.
 */

const why = (await noDocker()) ?? (await noNetworks())
if (why !== null) skipped('attacks by images', why)

const attack = (claim: Omit<Claim, 'topic' | 'modes'>, body: () => Promise<void>): void => {
  const meta = {
    attack: { claim: { ...claim, topic: 'Containers' as const, modes: ['root' as const] }, mode: 'root' as const },
  }
  it(claim.held, { meta, timeout: 60_000 }, body)
}

const refused = ['ECONNREFUSED', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH']

describe.skipIf(why !== null)('images', () => {
  let containers: Containers
  let attacker: HostileContainer
  let victim: HostileContainer
  let database: Awaited<ReturnType<typeof hostService>>

  beforeAll(async () => {
    database = await hostService('127.0.0.1')
    const ports = [{ from: database.port, to: database.port }]
    containers = await openContainers({ ...noReach, loopback: ports, localOnly: ports })
    attacker = await containers.start()
    victim = await containers.start({ project: 'proj_victim', app: 'victim' })
  }, 120_000)
  afterAll(async () => {
    await containers?.[Symbol.asyncDispose]()
    await database?.[Symbol.asyncDispose]()
  }, 60_000)

  attack(
    {
      id: 'container-socket',
      held: 'An image that names folders of sockets as its volumes gets no socket of an engine',
    },
    async () => {
      const { host, directory } = containers.bench.dockerd
      const socket = host.replace('unix://', '')
      const folders = ['/var/run', '/run/containerd', directory]
      const app = await containers.start({ changes: [`VOLUME ${JSON.stringify(folders)}`] })
      const paths = ['/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock', socket]
      const found = `return ${JSON.stringify([...folders, ...paths])}.flatMap((path) => {
        try { return require('node:fs').readdirSync(path) } catch (error) { return error.code === 'ENOENT' ? [] : [error.code] }
      })`
      expect(await app.run(found)).toEqual([])
      await app.end()
    },
  )

  attack(
    {
      id: 'container-privileged',
      held: 'No image makes its container privileged: it has seven capabilities, a filter of system calls, and gains nothing',
    },
    async () => {
      const changes = ['USER 0:0', 'LABEL privileged=true', 'ENV PRIVILEGED=true']
      const app = await containers.start({ changes })
      const status = String(await app.run(`return require('node:fs').readFileSync('/proc/self/status', 'utf8')`))
      const fieldOf = (name: string) => new RegExp(`^${name}:\\s*(\\S+)`, 'm').exec(status)?.[1]
      // CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID and NET_BIND_SERVICE.
      const seven = (0x4eb).toString(16).padStart(16, '0')
      expect([fieldOf('CapEff'), fieldOf('CapPrm'), fieldOf('CapBnd')]).toEqual([seven, seven, seven])
      expect([fieldOf('NoNewPrivs'), fieldOf('Seccomp')]).toEqual(['1', '2'])
      await app.end()
    },
  )

  attack({ id: 'container-setuid', held: 'A setuid program of an image gives its user nothing' }, async () => {
    const app = await containers.start({ changes: ['USER 1000:1000'] })
    const id = `return require('node:child_process').execFileSync('id', ['-u'], { encoding: 'utf8' }).trim()`
    expect(await app.run(id)).toBe('1000')
    // $> is the effective user; setuid(0) is system call 105 on x64 and 146 on arm64.
    const number = process.arch === 'x64' ? 105 : 146
    expect(await app.perl(`my $done = syscall(${number}, 0); print "[", $>, ",", $done, "]"`)).toEqual([1000, -1])
    await app.end()
  })

  attack(
    {
      id: 'container-namespaces',
      held: 'A container shares no namespace of processes, network, files, names or groups with the machine or another one',
    },
    async () => {
      const names = ['net', 'pid', 'mnt', 'ipc', 'uts', 'cgroup']
      const of = (pid: number | string) => Promise.all(names.map((name) => readlink(`/proc/${pid}/ns/${name}`)))
      const [own, machine, other] = [await of(attacker.pid), await of('self'), await of(victim.pid)]
      const shared = names.filter((_, at) => own[at] === machine[at] || own[at] === other[at])
      expect(shared).toEqual([])
    },
  )

  attack({ id: 'container-abstract', held: 'A container reaches no abstract Unix socket of the machine' }, async () => {
    const name = `\0fairlead-containers-${process.pid}`
    const server = createServer((socket) => socket.end('secret'))
    await new Promise<void>((done) => server.listen(name, done))
    const reads = `return new Promise((done) => {
      const socket = require('node:net').connect(${JSON.stringify(name)})
      socket.on('data', (data) => done(String(data))).on('error', (error) => done(error.code))
    })`
    expect(await attacker.run(reads)).toBe('ECONNREFUSED')
    server.close()
  })

  attack({ id: 'container-devices', held: 'A container has no device of the machine, and makes none' }, async () => {
    const listed = (await attacker.run(`return require('node:fs').readdirSync('/dev')`)) as string[]
    const harmless = [
      'core',
      'fd',
      'full',
      'mqueue',
      'null',
      'ptmx',
      'pts',
      'random',
      'shm',
      'stderr',
      'stdin',
      'stdout',
    ]
    expect(listed.filter((name) => ![...harmless, 'tty', 'urandom', 'zero', 'console'].includes(name))).toEqual([])
    // mknodat(AT_FDCWD, path, S_IFBLK, …): the first disks of a machine.
    const number = process.arch === 'x64' ? 259 : 33
    const program = `my @got; for my $major (8, 253, 254, 259) {
      my $path = "/tmp/disk$major\\0"; my $device = $major << 8;
      push @got, syscall(${number}, -100, $path, 0060600, $device) == 0 ? 0 : $! + 0 }
      print "[", join(",", @got), "]"`
    expect(await attacker.perl(program)).toEqual([1, 1, 1, 1])
  })

  attack(
    {
      id: 'container-calls',
      held: 'A container makes no mount, namespace, key, kernel program or other call that changes the machine',
    },
    async () => {
      const numbers: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
        ...{ mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41], open_tree: [428, 428], fsopen: [430, 430] },
        ...{ chroot: [161, 51], setns: [308, 268], bpf: [321, 280], perf_event_open: [298, 241], quotactl: [179, 60] },
        ...{ init_module: [175, 105], finit_module: [313, 273], delete_module: [176, 106], kexec_load: [246, 104] },
        ...{ reboot: [169, 142], swapon: [167, 224], syslog: [103, 116], userfaultfd: [323, 282], acct: [163, 89] },
        ...{ keyctl: [250, 219], add_key: [248, 217], request_key: [249, 218], open_by_handle_at: [304, 265] },
        ...{ settimeofday: [164, 170], sethostname: [170, 161], unshare: [272, 97] },
      }
      const calls = Object.entries(numbers).map(
        ([name, [x64, arm64]]) => `"${name}", ${process.arch === 'x64' ? x64 : arm64}`,
      )
      const program = `my %calls = (${calls.join(', ')}); my @done;
        for my $name (keys %calls) {
          my $first = $name eq "unshare" ? 0x10000000 : 0;
          my $result = syscall($calls{$name}, $first, 0, 0, 0, 0);
          push @done, "\\"$name\\"" unless $result == -1 && ($! + 0 == 1 || $! + 0 == 38);
        }
        print "[", join(",", @done), "]"`
      expect(await attacker.perl(program)).toEqual([])
    },
  )

  attack(
    {
      id: 'container-settings',
      held: 'A container writes to no setting of the kernel, in /proc or /sys, and to no control group',
    },
    async () => {
      const files = ['/proc/sys/kernel/core_pattern', '/proc/sys/net/ipv4/ip_forward', '/proc/sys/vm/overcommit_memory']
      files.push(
        '/proc/sysrq-trigger',
        '/proc/irq/0/smp_affinity',
        '/sys/kernel/uevent_helper',
        '/sys/kernel/mm/ksm/run',
      )
      files.push('/proc/sys/net/ipv4/conf/all/route_localnet', '/sys/fs/cgroup/memory/release_agent')
      files.push('/sys/fs/cgroup/pids/pids.max', '/sys/fs/cgroup/pids.max', '/sys/fs/cgroup/cgroup.procs')
      const opened = `return ${JSON.stringify(files)}.filter((file) => {
        try { require('node:fs').closeSync(require('node:fs').openSync(file, 'r+')); return true } catch { return false }
      })`
      expect(await attacker.run(opened)).toEqual([])
    },
  )

  attack({ id: 'container-metadata', held: 'A container does not reach 169.254.169.254' }, async () => {
    await using cleanup = new AsyncDisposableStack()
    // Another test may have created it.
    const made = await system('ip', 'address', 'add', '169.254.169.254/32', 'dev', 'lo').catch(() => null)
    if (made !== null) {
      cleanup.defer(async () => void (await system('ip', 'address', 'del', '169.254.169.254/32', 'dev', 'lo')))
    }
    const service = cleanup.use(await hostService('0.0.0.0'))
    const [outcome] = await attacker.open(['169.254.169.254', service.port])
    expect(refused).toContain(outcome)
  })

  attack(
    {
      id: 'container-host-services',
      held: 'A container reaches no service of the machine that is not meant for apps, at any of its addresses',
    },
    async () => {
      await using everywhere = await hostService('0.0.0.0')
      await using loopback = await hostService('127.0.0.1')
      const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
      const addresses = own.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
      const to = [...addresses, attacker.gateway, victim.gateway].flatMap((address) =>
        [everywhere, loopback].map(({ port }) => [address, port] as const),
      )
      await attacker.open(...to)
      expect([everywhere.sockets.size, loopback.sockets.size]).toEqual([0, 0])
    },
  )

  attack(
    { id: 'container-others', held: 'A container reaches no container of another project, and finds none by name' },
    async () => {
      const port = Number(victim.handle.data['port'])
      expect(await attacker.open([victim.address, port], [victim.address, 22])).toEqual(['ETIMEDOUT', 'ETIMEDOUT'])
      const names = ['victim', 'victim.internal', victim.id.slice(0, 12), victim.release.id]
      const found = `return Promise.all(${JSON.stringify(names)}.map((name) =>
      require('node:dns/promises').resolve4(name).catch(() => [])))`
      expect(((await attacker.run(found)) as string[][]).flat()).toEqual([])
    },
  )

  attack(
    {
      id: 'container-packets',
      held: 'A container sends no made-up packets, so that it is nobody else in its network, and changes no address',
    },
    async () => {
      // PF_PACKET, and raw IPv4 for TCP and ICMP; then SIOCSIFADDR and SIOCSIFHWADDR for eth0.
      const program = `my @got;
        for my $each ([17, 3, 0x300], [2, 3, 6], [2, 3, 1]) { push @got, socket(my $s, $each->[0], $each->[1], $each->[2]) ? 0 : $! + 0 }
        socket(my $plain, 2, 2, 0);
        for my $request (0x8916, 0x8924) { my $data = pack("a16 S n C4 x8", "eth0", 2, 0, 10, 1, 2, 3); push @got, defined(ioctl($plain, $request, $data)) ? 0 : $! + 0 }
        print "[", join(",", @got), "]"`
      expect(await attacker.perl(program)).toEqual([1, 1, 1, 1, 1])
    },
  )

  attack(
    {
      id: 'container-neighbours',
      held: 'A container does not fill the table of neighbours, which all networks of the machine share',
    },
    async () => {
      const base = attacker.gateway.split('.').slice(0, 3).join('.')
      const to = Array.from({ length: 250 }, (_, at) => [`${base}.${at + 3}`, 9] as const)
      await attacker.open(...to)
      const table = await system('nsenter', `--net=/proc/${attacker.pid}/ns/net`, '--', 'ip', 'neigh')
      expect(table.trim().split('\n').length).toBeLessThanOrEqual(70)
    },
  )

  attack(
    {
      id: 'container-connections',
      held: 'A container that sends to others of its project, or to all of them at once, fills no table of the machine',
    },
    async () => {
      const other = await containers.start()
      const everybody = attacker.gateway.replace(/\d+$/, '255')
      for (const to of [other.address, everybody, '255.255.255.255', '224.0.0.251', '198.51.100.1']) {
        const before = await trackedConnections()
        const sends = `const begun = Date.now()
          const socket = require('node:dgram').createSocket('udp4')
          await new Promise((done) => socket.bind(0, done))
          socket.setBroadcast(true)
          for (let port = 1; port <= 10000; port++) await new Promise((done) => socket.send('x', port, '${to}', done))
          socket.close()
          return (Date.now() - begun) / 1000`
        const seconds = Number(await attacker.run(sends))
        // Other tests' connections also count: they may come from the same attack.
        expect((await trackedConnections()) - before, to).toBeLessThan(2_000 + 100 * seconds + 4_000)
      }
      await other.end()
    },
  )

  attack(
    { id: 'container-sessions', held: 'A container takes up no more than 100 connections of PostgreSQL' },
    async () => {
      const to = Array.from({ length: 250 }, () => database.port)
      const count = `const sockets = ${JSON.stringify(to)}.map((port) => require('node:net').connect(port, '127.0.0.1'))
        const outcomes = await Promise.all(sockets.map((socket) => new Promise((done) => {
          socket.setTimeout(3000, () => done(0)).on('connect', () => done(1)).on('error', () => done(0))
        })))
        for (const socket of sockets) socket.destroy()
        return outcomes.reduce((sum, each) => sum + each, 0)`
      const opened = Number(await attacker.run(count))
      expect(opened).toBeGreaterThan(0)
      expect(opened).toBeLessThanOrEqual(100)
    },
  )

  attack({ id: 'container-forks', held: 'A fork bomb in a container ends at its 512 processes' }, async () => {
    const app = await containers.start()
    const bomb = `const { spawn } = require('node:child_process')
      let refused = 0
      for (let at = 0; at < 600; at++) spawn('sleep', ['60'], { stdio: 'ignore' }).on('error', () => refused++)
      await new Promise((done) => setTimeout(done, 200))
      return refused`
    expect(Number(await app.run(bomb))).toBeGreaterThan(50)
    expect((await containers.docker.runtime.instances.usage(app.handle)).processes).toBeLessThanOrEqual(512)
    expect(await victim.run('return 1')).toBe(1)
    await app.end()
  })

  attack(
    { id: 'container-memory', held: 'A container that takes more memory than it may is ended, and no other one' },
    async () => {
      const app = await containers.start()
      await app.run('const all = []; for (;;) all.push(Buffer.alloc(16e6, 1))').catch(() => undefined)
      const { instances } = containers.docker.runtime
      await expect
        .poll(() => instances.observe(app.handle), { timeout: 30_000 })
        .toMatchObject({ state: 'exited', exceeded: { code: 'out_of_memory' } })
      expect(await victim.run('return 1')).toBe(1)
      await app.end()
    },
  )

  attack(
    { id: 'container-log', held: 'A container that prints without end fills no disk with the engine’s copy of it' },
    async () => {
      const app = await containers.start()
      await app.run(`const line = 'x'.repeat(8191) + '\\n'
      for (let at = 0; at < 5000; at++) if (!process.stdout.write(line)) await new Promise((done) => process.stdout.once('drain', done))
      return 1`)
      const folder = join(containers.bench.dockerd.directory, 'data', 'containers', app.id)
      const names = (await readdir(folder)).filter((name) => name.includes('-json.log'))
      const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))
      expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(20e6)
      await app.end()
    },
  )

  attack(
    {
      id: 'container-disk',
      held: 'All that a container writes to the disk counts for its app, also in volumes that its image names',
    },
    async () => {
      const app = await containers.start({ changes: ['VOLUME /data'] })
      const { releases } = containers.docker.runtime
      const before = await releases.diskUsage(app.release, 'all')
      await app.run(`for (const file of ['/root-file', '/data/file', '/tmp/file'])
        require('node:fs').writeFileSync(file, Buffer.alloc(5e6, 1))`)
      expect((await releases.diskUsage(app.release, 'all')) - before).toBeGreaterThan(14e6)
      await app.end()
    },
  )

  attack(
    {
      id: 'container-labels',
      held: 'An image whose labels name another app, release or server is listed as what it is, and ends nobody else',
    },
    async () => {
      const { bench, docker } = containers
      const claims = { [serverLabel]: 'another', [appLabel]: victim.release.appId, [releaseLabel]: victim.release.id }
      const labels = Object.entries({ ...claims, [commandLabel]: victim.id, 'app.fairlead.project': 'proj_victim' })
      const app = await containers.start({
        changes: [`LABEL ${labels.map(([name, value]) => `${name}=${value}`).join(' ')}`],
      })
      const { apps, running } = await docker.runtime.releases.list()
      const releasesOf = (id: string) => apps.find((each) => each.id === id)?.releases
      expect(releasesOf(victim.release.appId)).toEqual([victim.release.id])
      expect(releasesOf(app.release.appId)).toEqual([app.release.id])
      expect([running.has(app.release.id), running.has(victim.release.id)]).toEqual([true, true])
      expect(await attacker.open([app.address, Number(app.handle.data['port'])])).toEqual(['open'])
      const networks = await bench.dockerd.engine.call<{ Name: string }[]>({ method: 'GET', path: ['networks'] })
      expect(networks.filter(({ Name }) => Name.includes('proj_'))).toHaveLength(2)
      await app.end()
      expect(await victim.run('return 1')).toBe(1)
    },
  )

  attack(
    {
      id: 'container-workdir',
      held: 'An image whose working directory is a descriptor of the engine sees no folder of the machine',
    },
    async () => {
      for (const descriptor of [7, 8]) {
        const changes = [
          `WORKDIR /proc/self/fd/${descriptor}`,
          'CMD ["ls", "../../../../../../etc/fairlead-test", "/", "."]',
        ]
        const { release, handle } = await containers.startOnly({ changes })
        const { instances, releases } = containers.docker.runtime
        await expect.poll(() => instances.observe(handle), { timeout: 20_000 }).toMatchObject({ state: 'exited' })
        const seen = await instances.observe(handle)
        // The engine refuses, or the folder belongs to the container: the machine has no folder of that name.
        expect(seen).not.toMatchObject({ code: 0 })
        await releases.remove(release)
      }
    },
  )

  attack(
    {
      id: 'container-health',
      held: 'An image has its health checked every five seconds at most, since the checks are the machine’s work',
    },
    async () => {
      for (const Interval of [1e6, 1, -1]) {
        const config = { Healthcheck: { Test: ['CMD', 'true'], Interval, Timeout: 1e9 } }
        const { release, handle } = await containers.startOnly({ config })
        const { Config } = await containers.bench.dockerd.engine.call<{ Config: { Healthcheck: object } }>({
          method: 'GET',
          path: ['containers', String(handle.data['container']), 'json'],
        })
        expect(Config.Healthcheck).toMatchObject({ Test: ['CMD', 'true'], Interval: 5e9 })
        await containers.docker.runtime.releases.remove(release)
      }
    },
  )

  attack(
    {
      id: 'container-signal',
      held: 'An image whose signal to end by does not exist keeps no container from being ended',
    },
    async () => {
      const { release, handle } = await containers.startOnly({ config: { StopSignal: 'SIGNOTHING' } })
      const { instances, releases } = containers.docker.runtime
      await releases.halt(release, { graceMs: 20_000 })
      expect(await instances.observe(handle)).toMatchObject({ state: 'exited' })
      await releases.remove(release)
    },
  )

  attack(
    { id: 'container-entry', held: 'A container changes no program of the server that is shown to it' },
    async () => {
      const write = `try { require('node:fs').writeFileSync('/.fairlead-enter', 'x'); return 'written' } catch (error) { return error.code }`
      expect(['EROFS', 'ETXTBSY', 'EBUSY']).toContain(await attacker.run(write))
      const remove = `try { require('node:fs').unlinkSync('/.fairlead-enter'); return 'removed' } catch (error) { return error.code }`
      expect(await attacker.run(remove)).toBe('EBUSY')
      const mounts = String(await readFile(`/proc/${attacker.pid}/mountinfo`, 'utf8'))
      const shown = mounts.split('\n').filter((line) => line.includes(containers.bench.dockerd.directory))
      expect(
        shown.filter(
          (line) =>
            !/ \/\.fairlead-enter ro[, ]| \/etc\/(hosts|hostname|resolv\.conf) /.test(line) &&
            !line.includes('overlay'),
        ),
      ).toEqual([])
    },
  )

  attack({ id: 'container-process-apps', held: 'A container reaches no process of another project' }, async () => {
    const names = namesOf(dataDirectoryOf(containers.bench.server))
    const tools = await findNetworkTools()
    if (tools === null) throw new Error('iproute2, nftables or util-linux is missing')
    const policy = { range: testNetwork, reach: noReach, resolvers: [], services: [], mirrors: [] }
    const server = createHttpServer((_, response) => response.end('process'))
    await using cleanup = new AsyncDisposableStack()
    // The rules for processes, with a process of another project.
    const link = interfaceName(names, 'app', 1)
    const victims = { projectId: 'proj_victim', address: '198.19.255.254', link, bridge: null }
    await setHostTable(tools, names, policy, 'links', { members: [victims] })
    cleanup.defer(() => removeHostTable(tools, names))
    await system('ip', 'link', 'add', link, 'type', 'bridge')
    cleanup.defer(async () => void (await system('ip', 'link', 'delete', link)))
    await system('ip', 'address', 'add', '198.19.255.253/30', 'dev', link)
    await system('ip', 'link', 'set', link, 'up')
    await new Promise<void>((done) => server.listen(0, '198.19.255.253', done))
    cleanup.defer(() => void server.close())
    const { port } = server.address() as AddressInfo
    const outcomes = await attacker.open(['198.19.255.253', port], ['198.19.255.254', port])
    expect(outcomes.filter((outcome) => !refused.includes(outcome))).toEqual([])
  })
})
