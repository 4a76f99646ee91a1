import type { DnsServer } from '../../server/src/platform/dns/transport.ts'
import {
  type Answer,
  answerFromZones,
  isWithin,
  type Question,
  rcodes,
  readZone,
  type ZoneAnswer,
  type ZoneData,
} from './dns-zones.ts'
import { type RunningDns, recursionAvailable, serveDns } from './name-server.ts'

/*
 * A Domain Name System on loopback addresses: the root, the needed top-level domains, the test's zones with their
 * servers, and a recursive server. A test can make every zone and server wrong.
 */

/** `lame` servers answer without the zone; `silent` servers do not answer. */
export type Behaviour = 'right' | 'silent' | 'refused' | 'servfail' | 'lame'

export interface DnsWorld extends AsyncDisposable {
  readonly recursive: DnsServer
  readonly authorityPort: number
  /** Each query of a server over the network: `recursive` or the server's address, the name and the type. */
  readonly questions: readonly string[]
  /** Adds a zone, or replaces its records at all of its servers. By default a zone has two servers. */
  zone(name: string, records: string, servers?: ZoneData['servers']): Promise<void>
  /** Replaces the records at one server of a zone. */
  zoneAt(name: string, server: number, records: string): void
  /** Removes a zone and its delegation. */
  remove(name: string): void
  addressOf(zone: string, server: number): string
  behave(zone: string, server: number, behaviour: Behaviour): void
  /** Replaces the recursive server's answer to a question; undefined leaves the question unanswered. */
  recursiveAnswers(name: string, type: string, answer: ZoneAnswer | undefined): void
  /** Caches the recursive server's current answer. */
  keep(name: string, ...types: readonly Question['type'][]): void
  /** Makes the recursive server reject the signatures of a zone. */
  breakDnssec(zone: string): void
}

const mostAliases = 12
let worlds = 0

export async function dnsWorld(zones: Readonly<Record<string, string>> = {}): Promise<DnsWorld> {
  await using cleanup = new AsyncDisposableStack()
  worlds += 1
  const network = `127.${100 + (process.pid % 100)}.${worlds % 250}`
  const state = createState(network)
  const questions: string[] = []
  const running = new Map<string, RunningDns>()
  const root = cleanup.use(
    await serveDns({ address: `${network}.1`, port: 0 }, (question) => answerAt(`${network}.1`, question)),
  )
  const authorityPort = root.port
  running.set(`${network}.1`, root)

  function answerAt(address: string, question: Question) {
    questions.push(`${address} ${question.name} ${question.type}`)
    return state.authoritative(address, question)
  }

  const listenAt = async (address: string): Promise<void> => {
    if (running.has(address)) return
    const server = await serveDns({ address, port: authorityPort }, (question) => answerAt(address, question))
    running.set(address, cleanup.use(server))
  }

  const recursive = cleanup.use(
    await serveDns({ address: '127.0.0.1', port: 0 }, (question, query) => {
      questions.push(`recursive ${question.name} ${question.type}`)
      return state.recursive(question, query.flag_cd)
    }),
  )
  const zone: DnsWorld['zone'] = async (name, records, servers) => {
    state.add(name, records, servers)
    for (const { address } of state.serversOf(name)) await listenAt(address)
  }
  for (const [name, records] of Object.entries(zones)) await zone(name, records)
  const owned = cleanup.move()
  return {
    ...state.controls,
    recursive: { address: '127.0.0.1', port: recursive.port },
    authorityPort,
    questions,
    zone,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** The zones and servers of a world and their answers, without the network. */
function createState(network: string) {
  const zones = new Map<string, ZoneData>()
  const behaviours = new Map<string, Behaviour>()
  const special = new Map<string, ZoneAnswer | undefined>()
  const overridden = new Map<string, readonly Answer[]>()
  const bogus: string[] = []
  let hosts = 1
  zones.set('', { name: '', servers: [{ name: 'a.root-servers', address: `${network}.1` }], records: [] })

  const dataOf = (name: string): ZoneData => {
    const found = zones.get(name)
    if (found === undefined) throw new Error(`there is no zone ${name}`)
    return found
  }

  const add = (name: string, text: string, given?: ZoneData['servers']): void => {
    const topLevel = name.slice(name.lastIndexOf('.') + 1)
    if (name !== topLevel && !zones.has(topLevel)) add(topLevel, '')
    const next = (label: string) => {
      hosts += 1
      return { name: [label, name].join('.'), address: `${network}.${hosts}` }
    }
    const servers = given ?? zones.get(name)?.servers ?? [next('ns1'), ...(name === topLevel ? [] : [next('ns2')])]
    zones.set(name, { name, servers, records: readZone(name, text) })
  }

  const authoritative = (address: string, question: Question): ZoneAnswer | undefined => {
    const all = [...zones.values()]
    const behaviour = behaviours.get(address) ?? 'right'
    if (behaviour === 'silent') return undefined
    if (behaviour === 'refused') return { rcode: rcodes.REFUSED }
    if (behaviour === 'servfail') return { rcode: rcodes.SERVFAIL }
    if (behaviour === 'lame') return { authorities: [{ name: '', type: 'NS', ttl: 60, data: 'a.root-servers' }] }
    const own = all
      .filter(({ servers }) => servers.some((server) => server.address === address))
      .map((each) => ({ ...each, records: overridden.get(`${each.name} ${address}`) ?? each.records }))
    return answerFromZones(
      own,
      all.map((each) => own.find(({ name }) => name === each.name) ?? each),
      question,
    )
  }

  const recursive = (question: Question, isUnchecked: boolean): ZoneAnswer | undefined => {
    const key = `${question.name} ${question.type}`
    const flags = recursionAvailable
    if (special.has(key)) {
      const answer = special.get(key)
      return answer === undefined ? undefined : { ...answer, flags }
    }
    if (!isUnchecked && bogus.some((zone) => isWithin(question.name, zone))) return { rcode: rcodes.SERVFAIL, flags }
    return { ...resolveFrom(dataOf(''), authoritative, question), flags }
  }

  return {
    add,
    authoritative,
    recursive,
    serversOf: (name: string) => [...dataOf(name).servers, ...dataOf(name.slice(name.lastIndexOf('.') + 1)).servers],
    controls: {
      zoneAt(name: string, server: number, text: string) {
        overridden.set(`${name} ${dataOf(name).servers[server]?.address}`, readZone(name, text))
      },
      remove: (name: string) => void zones.delete(name),
      addressOf: (zone: string, server: number) => dataOf(zone).servers[server]?.address ?? '',
      behave(zone: string, server: number, behaviour: Behaviour) {
        behaviours.set(dataOf(zone).servers[server]?.address ?? '', behaviour)
      },
      recursiveAnswers: (name: string, type: string, answer: ZoneAnswer | undefined) =>
        void special.set(`${name} ${type}`, answer),
      keep(name: string, ...types: readonly Question['type'][]) {
        for (const type of types) special.set(`${name} ${type}`, recursive({ name, type }, false))
      },
      breakDnssec: (zone: string) => void bogus.push(zone),
    },
  }
}

type Authoritative = (address: string, question: Question) => ZoneAnswer | undefined

/** Resolves from the root down, as recursive servers do without caches. */
function resolveFrom(root: ZoneData, ask: Authoritative, question: Question): ZoneAnswer {
  const answers: Answer[] = []
  let name = question.name
  for (let aliases = 0; aliases <= mostAliases; aliases += 1) {
    const end = resolveOnce(root, ask, { ...question, name })
    if (end === undefined) return { rcode: rcodes.SERVFAIL }
    answers.push(...(end.answers ?? []))
    const last = end.answers?.at(-1)
    const isDone = last?.type !== 'CNAME' || question.type === 'CNAME' || (end.authorities ?? []).length > 0
    if (isDone) return { ...end, flags: 0, answers }
    name = last.data.toLowerCase()
  }
  return { rcode: rcodes.SERVFAIL }
}

function resolveOnce(root: ZoneData, ask: Authoritative, question: Question): ZoneAnswer | undefined {
  let addresses = root.servers.map(({ address }) => address)
  for (let depth = 0; depth < 10; depth += 1) {
    const answer = addresses.map((address) => ask(address, question)).find((each) => isUseful(each, question.name))
    if (answer === undefined) return undefined
    if ((answer.flags ?? 0) !== 0) return answer
    addresses = (answer.additionals ?? []).flatMap((each) => (each.type === 'A' ? [each.data] : []))
  }
  return undefined
}

/** A server's answer from its zone, or a referral. */
function isUseful(answer: ZoneAnswer | undefined, name: string): boolean {
  if (answer === undefined || (answer.rcode ?? 0) === rcodes.REFUSED || answer.rcode === rcodes.SERVFAIL) return false
  const leads = (answer.authorities ?? []).some(
    (each) => each.type === 'NS' && each.name !== '' && isWithin(name, each.name),
  )
  return (answer.flags ?? 0) !== 0 || leads
}
