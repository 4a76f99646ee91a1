import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { withoutLast } from '../../../server/src/platform/cgroups/cpu-share.ts'
import { findRunningDaemons } from '../../../server/src/runtimes/docker/dockerfiles/daemon-record.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { canSetCores } from '../../harness/runtimes/cores.ts'
import { type Fixture, fixture, noDockerfiles, runIn } from '../../harness/runtimes/docker/dockerfiles.ts'

const why = await noDockerfiles()
if (why !== null) skipped('builds of Dockerfiles', why)

describe.skipIf(why !== null)('a Dockerfile', () => {
  let docker: Fixture
  beforeAll(async () => {
    const environment = { HTTPS_PROXY: 'http://proxy.example:3128', npm_config_token: 'of-the-operator' }
    docker = await fixture({ environment })
  }, 120_000)
  afterAll(() => docker?.[Symbol.asyncDispose]())

  it('becomes an image of the engine that runs apps, and its build leaves no process', async () => {
    const built = await docker.build({
      Dockerfile: 'COPY . /app\nRUN echo "built by $(id -u)" && cp greeting copy\nCMD ["cat", "/app/copy"]',
      greeting: 'hello\n',
    })
    expect(built.log).toContain('built by 0')
    expect(built).toMatchObject({ code: 0, signal: null, exceeded: null })
    expect(await runIn(docker.engine, built.release, ['cat', '/app/copy'])).toBe('hello\n')
    expect(built.image?.Config.Labels).toMatchObject({ 'app.fairlead.release': built.release })
    expect(await findRunningDaemons(docker.folder)).toEqual([])
    expect((await readdir('/run/netns')).filter((name) => name.includes(built.release))).toEqual([])
    expect(await docker.groups()).toEqual([])
  })

  it('is at its path, and is built up to the named stage', async () => {
    const Dockerfile =
      'FROM fairlead-test/small AS first\nENV STAGE=first\nCOPY file .\nFROM first\nENV STAGE=second\nRUN exit 3'
    const built = await docker.build(
      { 'services/web/docker/Dockerfile': Dockerfile, 'services/web/file': '' },
      { path: 'services/web/docker/Dockerfile', target: 'first', context: 'services/web' },
    )
    expect(built).toMatchObject({ code: 0 })
    expect(built.image?.Config.Env).toContain('STAGE=first')
  })

  it('that fails says why, and makes no image', async () => {
    const built = await docker.build({ Dockerfile: 'RUN echo "to the log" && exit 3' })
    expect(built).toMatchObject({ code: 3, exceeded: null, image: null })
    expect(built.log).toMatch(/^to the log$/m)
    expect(built.log).toContain('exit code: 3')
    const wrong = await docker.build({ Dockerfile: 'FROM fairlead-test/small\nRAN true' })
    expect(wrong).toMatchObject({ code: 1, image: null })
    expect(wrong.log).toContain('RAN')
  })

  it('leaves a core free during its steps, for as long as the server asks', async ({ skip }) => {
    if (!(await canSetCores())) skip('one core, or cores that cannot be set')
    const cores = 'cores() { while read -r name list; do [ $name = Cpus_allowed_list: ] && echo $list; done; }'
    const wait = (until: string) => `until [ "$(cores < /proc/self/status)" ${until} "$all" ]; do sleep 0.1; done`
    const script = [
      cores,
      'all=$(cores < /proc/self/status)',
      'echo "at first: $all"',
      wait('!='),
      'echo "then: $(cores < /proc/self/status)"',
      wait('='),
      'echo "at last: $(cores < /proc/self/status)"',
    ]
    const building = docker.build({
      'script.sh': script.join('\n'),
      Dockerfile: 'COPY script.sh /\nRUN bash /script.sh',
    })
    try {
      await vi.waitFor(async () => expect(await docker.lastLog()).toContain('at first: '), 60_000)
      docker.leaveCore(true)
      await vi.waitFor(async () => expect(await docker.lastLog()).toContain('then: '), 60_000)
    } finally {
      docker.leaveCore(false)
    }
    const { code, log } = await building
    const [first, left, last] = ['at first', 'then', 'at last'].map((name) => log.split(`${name}: `)[1]?.split('\n')[0])
    expect({ code, left, last }).toEqual({ code: 0, left: withoutLast(first ?? ''), last: first })
  })

  it('gets variables when a step mounts them, and none is in the image', async () => {
    const steps = [
      'RUN --mount=type=secret,id=TOKEN [ "$(tr a-z b-za < /run/secrets/TOKEN)" = "pg uif bqq" ]',
      'RUN --mount=type=secret,id=npm_config_token [ "$(tr a-z b-za < /run/secrets/npm_config_token)" = pg-uif-pqfsbups ]',
      'RUN [ "$HTTPS_PROXY" = http://proxy.example:3128 ] && [ ! -e /run/secrets/TOKEN ] && env > /env',
    ]
    const built = await docker.build({ Dockerfile: steps.join('\n') }, { variables: { TOKEN: 'of the app' } })
    expect(built).toMatchObject({ code: 0 })
    const history = await docker.engine.call<unknown>({
      method: 'GET',
      path: ['images', built.image?.Id ?? '', 'history'],
    })
    const kept = JSON.stringify([built.image, history]) + (await runIn(docker.engine, built.release, ['cat', '/env']))
    expect(kept).toContain('run/secrets')
    expect(kept).not.toMatch(/of the app|of-the-operator/)
  })

  it('that mounts a variable that the app does not have fails', async () => {
    const built = await docker.build({ Dockerfile: 'RUN --mount=type=secret,id=NONE,required cat /run/secrets/NONE' })
    expect(built).toMatchObject({ code: 1, image: null })
    expect(built.log).toContain('NONE')
  })

  it('sees the commit’s files except those in .dockerignore', async () => {
    const built = await docker.build({
      Dockerfile: 'COPY . /app\nRUN ls -A /app /app/src',
      '.dockerignore': '# none of these\n*.log\nnode_modules\n!keep.log\n**/secret*',
      'drop.log': '',
      'keep.log': '',
      'node_modules/left-pad/index.js': '',
      'src/index.js': '',
      'src/secret.key': '',
      'src/drop.log': '',
    })
    expect(built.log).toMatch(
      /\/app:\n\.dockerignore\nDockerfile\nkeep\.log\nsrc\n\n\/app\/src:\ndrop\.log\nindex\.js\n/,
    )
  })

  it('that is rebuilt takes its steps from the cache of its app, and of no other app', async () => {
    const random = 'head -c 12 /dev/urandom'
    const Dockerfile = `RUN --mount=type=cache,target=/cache ls -A /cache && ${random} > /random && cat /random > /cache/it`
    const build = async (app: string) => {
      const { log, release } = await docker.build({ Dockerfile }, { app })
      return { log, random: await runIn(docker.engine, release, ['cat', '/random']) }
    }
    const [first, other] = await Promise.all([build('app_one'), build('app_two')])
    expect(await build('app_one')).toMatchObject({
      random: first.random,
      log: expect.stringContaining('(from the cache)'),
    })
    expect(other.random).not.toBe(first.random)
    // The folder that a step of one app has filled is empty for the other app.
    expect(other.log).not.toMatch(/^it$/m)
  })

  it('that is canceled ends with all of its processes, and does not wait for its steps', async () => {
    const cancel = new AbortController()
    let began = 0
    const then = () => {
      began = performance.now()
      cancel.abort(new Error('canceled'))
    }
    const build = docker.build(
      { Dockerfile: 'RUN sleep 1000 & echo begun; sleep 1000' },
      { signal: cancel.signal, when: { text: '\nbegun', then } },
    )
    await expect(build).rejects.toThrow('canceled')
    expect(performance.now() - began).toBeLessThan(20_000)
    expect(await findRunningDaemons(docker.folder)).toEqual([])
  })

  it('ends with its server, and is built by the next server with the remaining cache', async () => {
    const killed = await docker.kill(
      { Dockerfile: 'RUN head -c 9000000 /dev/zero > /it\nRUN echo begun; sleep 1000' },
      'begun',
    )
    expect(killed).toMatchObject([{ appId: 'app_killed' }])
    await expect.poll(() => findRunningDaemons(docker.folder), { timeout: 10_000 }).toEqual([])
    const next = await docker.build({ Dockerfile: 'RUN head -c 9000000 /dev/zero > /it' }, { app: 'app_killed' })
    expect(next).toMatchObject({ code: 0 })
  })

  it('that exceeds its memory limit gets an error about the limit', async () => {
    const built = await docker.build({ Dockerfile: 'RUN dd if=/dev/zero of=/dev/null bs=1500M count=1' })
    expect(built).toMatchObject({ image: null, exceeded: { code: 'out_of_memory', allowed: 512_000_000 } })
  })
})
