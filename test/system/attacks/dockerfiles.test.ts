import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findRunningDaemons } from '../../../server/src/runtimes/docker/dockerfiles/daemon-record.ts'
import { servicesIn } from '../../../server/src/runtimes/network/reach.ts'
import type { Claim } from '../../harness/attacks/claim.ts'
import { otherMachine } from '../../harness/networks.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { noRegistry, registryAccount, startRegistry, type TestRegistry } from '../../harness/registry.ts'
import {
  type BuildOptions,
  type Built,
  baseImage,
  type Files,
  type Fixture,
  fixture,
  frontEndLabel,
  noDockerfiles,
} from '../../harness/runtimes/docker/dockerfiles.ts'

/*
 * Hostile Dockerfiles, on their build daemon: they need a server that runs as root. One build tries everything that a
 * step can try, and its log reports the results.
 */

const why = (await noDockerfiles()) ?? (await noRegistry())
if (why !== null) skipped('attacks by Dockerfiles', why)

const attack = (claim: Omit<Claim, 'modes'>, body: () => Promise<void>): void => {
  const meta = { attack: { claim: { ...claim, modes: ['root' as const] }, mode: 'root' as const } }
  it(claim.held, { meta }, body)
}

/** Tries everything, and prints its successes. */
const probe = `
reach() { timeout 5 bash -c "echo > /dev/tcp/$2/$3" 2> /dev/null && echo "reached $1" || echo "tried $1"; }
gateway=$(while read -r _ to via _; do
  [ "$to" = 00000000 ] && echo "$((16#\${via:6:2})).$((16#\${via:4:2})).$((16#\${via:2:2})).$((16#\${via:0:2}))"
done < /proc/net/route)
reach public PUBLIC 80 &
reach private PRIVATE 80 &
reach metadata METADATA 80 &
for address in $gateway 127.0.0.1 OWN; do reach "machine at $address" $address PORT & done
wait
for path in /run /var/run /run/fairlead /run/docker /proc/1/root/run; do
  for name in "$path"/*; do [ -S "$name" ] && echo "found $name"; done
done
while read -r _ _ _ _ type _ _ name; do case "$type$name" in 0001@*) echo "found $name";; esac; done < /proc/net/unix
for each in /proc/[0-9]*; do echo "process $(tr '\\0' ' ' < $each/cmdline)"; done
while read -r name value; do case "$name" in NoNewPrivs:|CapEff:|Seccomp:) echo "$name $value";; esac; done < /proc/self/status
for number in 0 16; do for major in 8 253 254 259; do
  mknod /tmp/disk b $major $number && head -c 1 /tmp/disk > /dev/null 2>&1 && echo "opened $major:$number"
  rm -f /tmp/disk
done; done
for kind in 1 2 17 40; do perl -e "socket(S, $kind, $([ $kind = 17 ] && echo 3 || echo 1), 0) or exit 1" && echo "socket of kind $kind"; done
mkdir -p /tmp/mount
mount -t tmpfs tmpfs /tmp/mount 2> /dev/null && echo 'mounted tmpfs'
mount -t cgroup -o memory cgroup /tmp/mount 2> /dev/null && echo 'mounted cgroup'
for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/fs/cgroup/memory/release_agent /sys/kernel/uevent_helper; do
  (echo x > $file) 2> /dev/null && echo "wrote $file"
done
echo 'probe ended'
`

/**
 * Searches for a registry's password in all places that a program can read, and ends with 43 when it finds the
 * password.
 */
const search = `
shopt -s globstar dotglob nullglob
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /etc/** /root/** /home/** /run/** /tmp/** /var/** /dev/shm/**; do
  [ -f "$file" ] || continue
  case $(head -c 1000000 "$file" 2> /dev/null | tr -d '\\0') in PATTERN) exit 43;; esac
done
exit 42
`

describe.skipIf(why !== null)('a hostile Dockerfile', () => {
  let docker: Fixture
  let outside: Awaited<ReturnType<typeof otherMachine>>
  let registry: TestRegistry
  let probed: Built
  const requests: string[] = []
  const service = createServer((request, response) => {
    requests.push(`${request.socket.remoteAddress} ${request.url}`)
    response.end('a service of the machine')
  })
  const own = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4')
    .map(({ address }) => address)
  const port = () => (service.address() as AddressInfo).port
  /** All Dockerfiles build for one app, which has the base image. */
  const build = (files: Files, options: BuildOptions = {}) => docker.build(files, { app: 'app_hostile', ...options })
  const probeFile = () => {
    const { public: open, private: closed, metadata } = outside.addresses
    return probe
      .replace('PUBLIC', open)
      .replace('PRIVATE', closed)
      .replace('METADATA', metadata)
      .replace('OWN', own.join(' '))
      .replace('PORT', String(port()))
  }
  const lines = (text: string): string[] =>
    text.split('\n').filter((line) => /^(reached|found|opened|mounted|wrote) /.test(line))

  beforeAll(async () => {
    await new Promise<void>((done) => service.listen(0, '0.0.0.0', done))
    outside = await otherMachine('169.254.233.254')
    registry = await startRegistry({ asksForAccount: true })
    docker = await fixture({ memoryBytes: 128_000_000, reach: { mirrors: servicesIn([`http://${registry.host}`]) } })
    probed = await build({ Dockerfile: 'COPY probe /probe\nRUN bash /probe', probe: probeFile() })
  }, 120_000)
  afterAll(async () => {
    await docker?.[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
    await outside?.[Symbol.asyncDispose]()
    service.close()
  })

  const adds = async (url: string): Promise<string | null> => {
    const built = await build({ Dockerfile: `ADD ${url} /added\nRUN echo "added: $(cat /added)"` })
    return /^added: (.*)$/m.exec(built.log)?.[1] ?? null
  }

  attack(
    {
      id: 'dockerfile-metadata',
      topic: 'Network',
      held: 'A build of a Dockerfile does not reach 169.254.169.254, by no ADD and no step',
    },
    async () => {
      expect(probed.log).toContain('reached public')
      expect(probed.log).toContain('tried metadata')
      expect(await adds(`http://${outside.addresses.public}/`)).toBe('outside')
      expect(await adds(`http://${outside.addresses.metadata}/`)).toBeNull()
    },
  )

  attack(
    {
      id: 'dockerfile-private',
      topic: 'Network',
      held: 'A build of a Dockerfile reaches no private address, by no ADD and no step',
    },
    async () => {
      expect(probed.log).toContain('tried private')
      expect(await adds(`http://${outside.addresses.private}/`)).toBeNull()
    },
  )

  attack(
    {
      id: 'dockerfile-machine',
      topic: 'Network',
      held: 'A build of a Dockerfile reaches no service of the machine, by no ADD and no step',
    },
    async () => {
      expect(lines(probed.log).filter((line) => line.startsWith('reached machine'))).toEqual([])
      expect(probed.log.match(/^tried machine/gm)?.length).toBeGreaterThan(2)
      for (const address of ['127.0.0.1', ...own.slice(0, 1)])
        expect(await adds(`http://${address}:${port()}/add`)).toBeNull()
      expect(requests).toEqual([])
    },
  )

  attack(
    {
      id: 'dockerfile-socket',
      topic: 'Processes',
      held: 'A step of a Dockerfile finds no socket of an engine, and no abstract one of the machine',
    },
    async () => {
      expect(probed.log).toContain('probe ended')
      expect(lines(probed.log).filter((line) => line.startsWith('found'))).toEqual([])
      const mounted = await build({
        Dockerfile: 'RUN --mount=type=bind,source=/run/fairlead/docker.sock,target=/socket ls -l /socket',
      })
      expect(mounted.log).toContain('failed')
      expect(mounted.image).toBeNull()
    },
  )

  attack(
    {
      id: 'dockerfile-packets',
      topic: 'Network',
      held: 'A step of a Dockerfile sends no packets past the rules of its network, and nothing to the host of a virtual machine',
    },
    async () => {
      const opened = probed.log.match(/^socket of kind \d+$/gm)
      expect(opened).toEqual(['socket of kind 1', 'socket of kind 2'])
    },
  )

  attack(
    { id: 'dockerfile-processes', topic: 'Processes', held: 'A step of a Dockerfile sees no process but its own' },
    async () => {
      const seen = probed.log.split('\n').filter((line) => line.startsWith('process '))
      expect(seen.length).toBeGreaterThan(0)
      expect(seen.filter((line) => !/^process (\/bin\/sh -c )?bash \/probe|^process $/.test(line))).toEqual([])
    },
  )

  attack(
    {
      id: 'dockerfile-rights',
      topic: 'Processes',
      held: 'A step of a Dockerfile mounts nothing, opens no device and changes no setting of the kernel',
    },
    async () => {
      expect(probed.log).toContain('NoNewPrivs: 1')
      expect(probed.log).toContain('Seccomp: 2')
      expect(lines(probed.log).filter((line) => /^(opened|mounted|wrote)/.test(line))).toEqual([])
    },
  )

  attack(
    {
      id: 'dockerfile-flags',
      topic: 'Processes',
      held: 'A step of a Dockerfile gets no rights and no network by asking for them',
    },
    async () => {
      for (const flag of ['--security=insecure', '--network=host']) {
        // The flag is also an argument, so that no step of another build comes from the cache.
        const step = `RUN ${flag} bash /probe ${flag}`
        const built = await build({ Dockerfile: `COPY probe /probe\n${step}`, probe: probeFile() })
        expect(built.log).toMatch(/probe ended|unknown flag|not allowed/i)
        expect(lines(built.log).filter((line) => line !== 'reached public')).toEqual([])
      }
    },
  )

  attack(
    { id: 'dockerfile-setuid', topic: 'Processes', held: 'A setuid program gives no rights to a step of a Dockerfile' },
    async () => {
      const built = await build({
        Dockerfile: 'RUN cp /bin/id /as-root && chmod 4755 /as-root\nUSER 1001\nRUN /as-root',
      })
      expect(built.log).toMatch(/^uid=1001.*$/m)
      expect(built.log).not.toContain('euid=0')
    },
  )

  attack(
    { id: 'dockerfile-link', topic: 'Files', held: 'A link in a build context leads to no file of the machine' },
    async () => {
      const secret = (await readFile('/etc/hostname', 'utf8')).trim()
      const links = { file: { link: '/etc/hostname' }, folder: { link: '/etc' } }
      const read = 'RUN ls -l /context; cat /context/file /context/folder/hostname; true'
      const built = await build({ Dockerfile: `COPY . /context\n${read}`, ...links })
      expect(built.log).toContain('file -> /etc/hostname')
      expect(built.log).not.toContain(`\n${secret}\n`)
      const copied = await build({ Dockerfile: 'COPY folder/hostname /stolen', ...links })
      expect(copied.image).toBeNull()
    },
  )

  attack(
    { id: 'dockerfile-path', topic: 'Files', held: 'A Dockerfile is a file of its own commit, whatever its path says' },
    async () => {
      const files = { Dockerfile: '', 'linked/Dockerfile': '', link: { link: 'Dockerfile' }, away: { link: 'linked' } }
      for (const path of [
        '../Dockerfile',
        '/etc/passwd',
        'link',
        'away/Dockerfile',
        'linked',
        'none',
        '',
        'a//b',
        './Dockerfile',
      ]) {
        const built = await build(files, { path })
        expect(built).toMatchObject({ code: 1, image: null })
        expect(built.log).toMatch(/^The Dockerfile ".*" .+\.\n$/)
      }
    },
  )

  attack(
    {
      id: 'dockerfile-option',
      topic: 'Files',
      held: 'No name of a Dockerfile, a stage or a file of its context is taken for an option',
    },
    async () => {
      const files = {
        '--checkpoint=1': '',
        '--checkpoint-action=exec=touch pwned': '',
        '-f': '',
        'line\nbreak': '',
        '--privileged Dockerfile': 'COPY . /context\nRUN ls -A /context',
      }
      const built = await build(files, { path: '--privileged Dockerfile' })
      expect(built).toMatchObject({ code: 0 })
      expect(built.log).toContain('--checkpoint-action=exec=touch pwned')
      expect(built.log).not.toMatch(/^pwned$/m)
      const target = await build({ Dockerfile: 'RUN true' }, { target: '--privileged' })
      expect(target.log).toContain('--privileged')
      expect(target.image).toBeNull()
    },
  )

  attack(
    {
      id: 'dockerfile-labels',
      topic: 'Files',
      held: 'An image that a Dockerfile makes has no labels of the server but those of its own release',
    },
    async () => {
      const forged = 'LABEL app.fairlead.app=app_other app.fairlead.server=other'
      const built = await build({ Dockerfile: forged })
      expect(built.image?.Config.Labels).toMatchObject({
        'app.fairlead.app': 'app_hostile',
        'app.fairlead.server': 'test',
      })
      const other = await build({ Dockerfile: 'LABEL app.fairlead.volume=other' })
      expect(other).toMatchObject({ code: 1, image: null })
    },
  )

  attack(
    {
      id: 'dockerfile-image',
      topic: 'Files',
      held: 'A Dockerfile begins with no image of another app, and copies nothing from one',
    },
    async () => {
      const other = await docker.build({ Dockerfile: 'RUN echo secret > /secret' }, { app: 'app_victim' })
      const name = `fairlead/test:${other.release}`
      // The engine lists images of the same second in any order.
      const images = async () => {
        const listed = await docker.engine.call<{ Id: string }[]>({ method: 'GET', path: ['images', 'json'] })
        return listed.map((image) => image.Id).sort()
      }
      const before = await images()
      for (const Dockerfile of [
        `FROM ${name}\nRUN cat /secret`,
        `FROM ${other.image?.Id}`,
        `COPY --from=${name} /secret /x\nRUN cat /x`,
      ]) {
        // Registries have no such image, or are unreachable.
        const code = expect.stringMatching(/^(image_not_found|image_denied|registry_unreachable)$/)
        await expect(build({ Dockerfile })).rejects.toMatchObject({ code })
        expect(await docker.lastLog()).not.toMatch(/^secret$/m)
        expect(await images()).toEqual(before)
      }
    },
  )

  attack(
    {
      id: 'dockerfile-registry',
      topic: 'Files',
      held: 'No step and no front end of a Dockerfile finds the credentials by which its images are pulled',
    },
    async () => {
      const { username, password } = registryAccount
      const encoded = Buffer.from(`${username}:${password}`).toString('base64')
      const pattern = [password, encoded].map((text) => `*[${text[0]}]"${text.slice(1)}"*`).join('|')
      const files = { search: search.replace('PATTERN', pattern) }
      const front = await build({
        Dockerfile: `LABEL ${frontEndLabel}\nCOPY search /search\nENTRYPOINT ["bash", "/search"]`,
        ...files,
      })
      await registry.push(docker.engine, `fairlead/test:${front.release}`, 'front:1')
      await registry.push(docker.engine, baseImage, 'base:1')
      const credentials = { [registry.host]: registryAccount }
      const from = `FROM ${registry.host}/base:1\nCOPY search /search`
      const planted = await build(
        { Dockerfile: `${from}\nRUN echo 'of the step: ${password}' > /tmp/it; bash /search`, ...files },
        { credentials },
      )
      expect(planted.code).toBe(43)
      const step = await build({ Dockerfile: `${from}\nRUN bash /search; [ $? = 42 ]`, ...files }, { credentials })
      expect(step).toMatchObject({ code: 0 })
      const syntax = { Dockerfile: `# syntax=${registry.host}/front:1\nFROM ${registry.host}/base:1` }
      expect(await build(syntax, { credentials })).toMatchObject({ code: 42 })
      const path = ['images', step.image?.Id ?? '', 'history']
      const history = await docker.engine.call<unknown>({ method: 'GET', path })
      for (const text of [JSON.stringify([step.image, history]), step.log]) {
        for (const secret of [password, encoded]) expect(text).not.toContain(secret)
      }
    },
  )

  attack(
    {
      id: 'dockerfile-cache',
      topic: 'Files',
      held: 'No build of a Dockerfile finds what the build of another app has left in its cache',
    },
    async () => {
      const step = 'RUN --mount=type=cache,id=npm,sharing=shared,target=/cache'
      await build({ Dockerfile: `${step} echo poison > /cache/package` })
      const victim = await docker.build(
        { Dockerfile: `${step} ls -A /cache && echo whole > /it` },
        { app: 'app_victim' },
      )
      expect(victim).toMatchObject({ code: 0 })
      expect(victim.log).not.toMatch(/^package$/m)
    },
  )

  attack(
    { id: 'dockerfile-forks', topic: 'Limits', held: 'A fork bomb in a Dockerfile ends with its build' },
    async () => {
      // The shell ends once it cannot start a program any more.
      const Dockerfile = "RUN bash -c 'f() { f | f & }; f' 2> /dev/null; while sleep 0.1; do :; done; exit 1"
      const built = await build({ Dockerfile })
      expect(built).toMatchObject({ image: null, exceeded: { code: 'too_many_processes' } })
      expect(await findRunningDaemons(docker.folder)).toEqual([])
    },
  )

  attack(
    { id: 'dockerfile-memory', topic: 'Limits', held: 'A build of a Dockerfile takes no more memory than a build may' },
    async () => {
      const Dockerfile =
        'RUN dd if=/dev/zero of=/dev/null bs=1000M count=1 || true\nRUN head -c 1000M /dev/zero > /dev/shm/fill'
      expect(await build({ Dockerfile })).toMatchObject({ image: null })
      const hog = await build({ Dockerfile: 'RUN dd if=/dev/zero of=/dev/null bs=1000M count=1' })
      expect(hog).toMatchObject({ exceeded: { code: 'out_of_memory', allowed: 128_000_000 } })
    },
  )

  attack(
    {
      id: 'dockerfile-disk',
      topic: 'Limits',
      held: 'A layer that fills the disk is noticed, and its build ends at once',
    },
    async () => {
      const full = new AbortController()
      const most = 300_000_000
      const watched = (async () => {
        while ((await docker.builds.diskUsage('app_filler', most)) <= most) await sleep(50)
        full.abort(new Error('too large'))
        return performance.now()
      })()
      const Dockerfile = 'RUN dd if=/dev/zero of=/fill bs=1M count=100000'
      const built = docker.build({ Dockerfile }, { app: 'app_filler', signal: full.signal })
      await expect(built).rejects.toThrow('too large')
      expect(performance.now() - (await watched)).toBeLessThan(20_000)
      await docker.builds.removeApp('app_filler')
      expect(await docker.builds.diskUsage('app_filler')).toBe(0)
    },
  )

  attack(
    {
      id: 'dockerfile-log',
      topic: 'Limits',
      held: 'A step that prints without end does not fill the log of its deployment',
    },
    async () => {
      const built = await build({ Dockerfile: "RUN head -c 200000000 /dev/zero | tr '\\0' 'a'" })
      expect(built.code).toBe(0)
      expect(built.log.length).toBeLessThan(4_000_000)
    },
  )

  attack(
    { id: 'dockerfile-ignore', topic: 'Limits', held: 'No pattern of .dockerignore takes long to compare' },
    async () => {
      const name = 'a'.repeat(200)
      const files = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${name}${at}`, '']))
      const patterns = [`${'**/'.repeat(300)}b`, `${'*a'.repeat(300)}b`, `${'**a'.repeat(300)}b`]
      const begun = performance.now()
      const built = await build({ ...files, Dockerfile: 'RUN true', '.dockerignore': patterns.join('\n') })
      expect(built).toMatchObject({ code: 0 })
      expect(performance.now() - begun).toBeLessThan(60_000)
    },
  )

  attack(
    { id: 'dockerfile-left', topic: 'Limits', held: 'Nothing that a step of a Dockerfile leaves behind runs on' },
    async () => {
      const built = await build({ Dockerfile: 'RUN (sleep 7654321 &) ; (timeout 7654321 sleep 7654322 &) ; true' })
      expect(built).toMatchObject({ code: 0 })
      expect(await findRunningDaemons(docker.folder)).toEqual([])
      const left = (await readdir('/proc')).filter((name) => {
        try {
          return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('765432')
        } catch {
          return false
        }
      })
      expect(left).toEqual([])
    },
  )
})
