import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { challengeTarget } from '../../../../server/src/features/certificates/acme/dns-01.ts'
import type { EdgeConfig } from '../../../../server/src/platform/config/edge.ts'
import { createWorld, dashboardHost, domain } from '../../../harness/certificates/world.ts'
import { type Knot, noKnot, startKnot } from '../../../harness/knot.ts'
import { noPebble, type Pebble, startPebble } from '../../../harness/pebble.ts'
import { freePort } from '../../../harness/ports.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'
import { failureOf, shownFor, until } from '../authority.ts'

const missing = (await noPebble()) ?? (await noKnot())
if (missing !== null) console.warn(`Wildcards are not obtained here: ${missing}`)

const wildcard = `*.${domain}`
const proof = `_acme-challenge.${domain}`

describe.skipIf(missing !== null)('the certificate of a wildcard', () => {
  const cleanup = new AsyncDisposableStack()
  let knot: Knot
  let pebble: Pebble
  let httpPort: number
  beforeAll(async () => {
    // A customer's domain points to the name that proves it; another domain does not.
    knot = cleanup.use(await startKnot('test', `_acme-challenge.shop CNAME ${challengeTarget('shop.test', domain)}.\n`))
    httpPort = await freePort()
    const tlsPort = await freePort()
    pebble = cleanup.use(await startPebble({ httpPort, tlsPort, dnsServer: `127.0.0.1:${knot.port}` }))
  })
  afterAll(() => cleanup.disposeAsync())

  const byNsupdate = (keyFile = knot.keyFile) =>
    ({ kind: 'nsupdate', server: '127.0.0.1', port: knot.port, keyFile }) as const
  const world = (config: Partial<EdgeConfig> = {}) =>
    createWorld(
      {
        acme: { email: 'operator@example.com', url: pebble.directoryUrl, ca: pebble.caFile },
        dnsServers: [{ address: '127.0.0.1', port: knot.port }],
        dnsUpdates: byNsupdate(),
        ...config,
      },
      httpPort,
    )
  const records = (given: Awaited<ReturnType<typeof world>>) =>
    given.database.query<{ name: string }>('select name from acme_records')

  it('is obtained by dynamic updates, and serves all apps and the dashboard', async () => {
    await using given = await world()
    const app = await given.app()
    await given.lead()
    given.visit(app.hostname)
    given.visit(dashboardHost)
    const certificate = await shownFor(given, wildcard)
    expect(certificate.subjectAltName).toBe(`DNS:${wildcard}`)
    given.visit(app.hostname)
    await given.stop()
    expect((await given.rows()).map(({ names }) => names)).toEqual([[wildcard]])
    expect([...given.shown.keys()]).toEqual([wildcard])
    expect(await knot.texts(proof)).toEqual([])
    expect(await records(given)).toEqual([])
    expect(JSON.stringify(given.log)).not.toContain(await readFile(knot.keyFile, 'utf8'))
  })

  it('is obtained by the operator’s program, which gets only its arguments', async () => {
    await using directory = await temporaryDirectory()
    const [program, calls] = [join(directory.path, 'update.sh'), join(directory.path, 'calls')]
    const script = `#!/bin/sh
echo "$@" >> ${calls}
env >> ${calls}
case "$1" in add) line="update add $2. 5 TXT $3" ;; *) line="update delete $2. TXT $3" ;; esac
printf 'server 127.0.0.1 ${knot.port}\\n%s\\nsend\\n' "$line" | nsupdate -k ${knot.keyFile}
`
    await writeFile(program, script)
    await chmod(program, 0o700)
    await using given = await world({ dnsUpdates: { kind: 'command', program } })
    await given.lead()
    await shownFor(given, wildcard)
    const text = await until(async () => {
      const written = await readFile(calls, 'utf8')
      expect(written).toContain(`remove ${proof} `)
      return written
    })
    expect(text).toMatch(new RegExp(`^add ${proof.replaceAll('.', '\\.')} [\\w-]{43}$`, 'm'))
    const names = [...text.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name)
    expect([...new Set(names)].filter((name) => !['PATH', 'LC_ALL', 'PWD', 'SHLVL', '_'].includes(name ?? ''))).toEqual(
      [],
    )
  })

  it('that fails says why, and single certificates are obtained instead', async () => {
    await using given = await world({ dnsUpdates: byNsupdate(knot.wrongKeyFile) })
    const app = await given.app()
    await given.lead()
    const row = await failureOf(given, wildcard)
    expect(row.failure).toMatchObject({
      code: 'dns_update_failed',
      message: expect.stringMatching(
        /^nsupdate, for _acme-challenge\.example\.test at 127\.0\.0\.1, .*(NOTAUTH|BADSIG|tsig)/i,
      ),
    })
    given.visit(app.hostname)
    await given.age(wildcard, '2 minutes')
    await until(async () => expect((await failureOf(given, wildcard)).attempts).toBe(2))
    given.visit(app.hostname)
    await shownFor(given, app.hostname)
    await shownFor(given, dashboardHost)
    // As soon as the key is right, the wildcard is there, and single certificates are not renewed.
    await given.stop()
    await given.age(wildcard, '10 minutes')
    await given.lead({ dnsUpdates: byNsupdate() })
    await shownFor(given, wildcard)
    await given.age(app.hostname, '2000 days')
    await until(async () => expect((await given.rows()).map(({ names }) => names)).not.toContainEqual([app.hostname]))
  })

  it('by a failing program shows the program’s output', async () => {
    await using directory = await temporaryDirectory()
    const program = join(directory.path, 'update.sh')
    await writeFile(program, '#!/bin/sh\necho "no such\\tzone" >&2\nexit 7\n')
    await chmod(program, 0o700)
    await using given = await world({ dnsUpdates: { kind: 'command', program } })
    await given.lead()
    const { failure } = await failureOf(given, wildcard)
    expect(failure.message).toBe(`FAIRLEAD_DNS_UPDATE_COMMAND (add ${proof}) ended with the status 7: no such zone`)
    // The program may have set the record nevertheless: it is removed later.
    expect(await records(given)).toEqual([{ name: proof }])
    await given.stop()
    await given.age(wildcard, '2 minutes')
    await given.lead({ dnsUpdates: byNsupdate() })
    await shownFor(given, wildcard)
    await until(async () => expect(await records(given)).toEqual([]))
  })

  it('of a domain is proved at a name below the server’s', async () => {
    await using given = await world()
    const app = await given.app()
    await given.domain(app.id, '*.shop.test')
    await given.domain(app.id, '*.elsewhere.test')
    await given.lead()
    expect((await shownFor(given, '*.shop.test')).subjectAltName).toBe('DNS:*.shop.test')
    expect(await failureOf(given, '*.elsewhere.test')).toMatchObject({
      failure: {
        code: 'dns_not_delegated',
        message: expect.stringContaining(`must be an alias of ${challengeTarget('elsewhere.test', domain)}`),
      },
    })
    expect(await knot.texts(challengeTarget('shop.test', domain))).toEqual([])
  })

  it('of a domain hides the operator’s machines from its owner', async () => {
    await using given = await world({ dnsUpdates: byNsupdate(knot.wrongKeyFile) })
    await given.domain((await given.app()).id, '*.shop.test')
    await given.lead()
    const { failure } = await failureOf(given, '*.shop.test')
    expect(failure).toEqual({
      code: 'dns_update_failed',
      message: expect.stringContaining('Its operator finds the reason'),
    })
    expect(failure.message).not.toMatch(/127\.0\.0\.1|nsupdate/)
  })

  it('of a domain needs a server that can change DNS', async () => {
    await using given = await world({ dnsUpdates: null })
    const app = await given.app()
    await given.domain(app.id, '*.shop.test')
    await given.lead()
    expect(await failureOf(given, '*.shop.test')).toMatchObject({ failure: { code: 'dns_updates_missing' } })
    expect((await shownFor(given, dashboardHost)).subjectAltName).toBe(`DNS:${dashboardHost}`)
  })

  it('leaves no record behind when the server is killed: the next server removes it', async () => {
    await using given = await world()
    await given.database.query("insert into acme_records (name, value) values ($1, 'left-over')", [proof])
    await given.lead()
    await until(async () => expect(await records(given)).toEqual([]))
  })
})
