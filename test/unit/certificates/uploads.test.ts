import { generateKeyPairSync } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import { checkUpload } from '../../../server/src/features/certificates/check-upload.ts'
import { isProblem } from '../../../server/src/features/certificates/pem.ts'
import { authority, ecKey, type Issued, issue, pemOf, rsaKey } from '../../harness/issuing.ts'

const check = (certificate: string, privateKey: string) => checkUpload({ certificate, privateKey }, new Date())

let root: Issued
let middle: Issued
let leaf: Issued
beforeAll(async () => {
  root = await authority({ to: 1000 })
  middle = await authority({ subject: 'CN=Test Intermediate, O=Tests', issuer: root, to: 500 })
  leaf = await issue({ names: ['www.example.com', '*.example.com'], issuer: middle })
})

describe('a certificate that browsers accept', () => {
  it('is kept as PEM without surrounding text, and without the root', async () => {
    const text = `Bag Attributes\n  friendlyName: x\n${leaf.certificate}\r\nsubject=x\n${middle.certificate}${root.certificate}`
    const checked = check(text, `some text\n${leaf.key}`)
    expect(checked).toMatchObject({
      names: ['www.example.com', '*.example.com'],
      issuer: 'Tests (Test Intermediate)',
      serial: expect.stringMatching(/^[0-9A-F]+$/),
    })
    expect(checked).toMatchObject({ chain: expect.not.stringContaining('Bag Attributes') })
    if (isProblem(checked)) throw new Error(checked.message)
    expect(checked.chain.match(/BEGIN CERTIFICATE/g)).toHaveLength(2)
    expect(checked.key).toMatch(/^-----BEGIN PRIVATE KEY-----\n/)
    expect(check(checked.chain, checked.key)).toEqual(checked)
  })

  it.each([
    ['RSA with 2048 bits', () => rsaKey()],
    ['RSA with 4096 bits', () => rsaKey(4096)],
    ['ECDSA on P-384', () => ecKey('P-384')],
  ])('may have a key of the type %s, in each format', async (_, makeKey) => {
    const key = makeKey()
    const { certificate } = await issue({ names: ['a.example.com'], issuer: middle, key })
    const traditional = key
      .export({ type: key.asymmetricKeyType === 'rsa' ? 'pkcs1' : 'sec1', format: 'pem' })
      .toString()
    for (const form of [pemOf(key), traditional]) {
      expect(check(certificate + middle.certificate, form)).toMatchObject({ names: ['a.example.com'] })
    }
  })

  it('may come from a private authority, or be self-signed', async () => {
    const direct = await issue({ names: ['a.example.com'], issuer: root })
    expect(check(direct.certificate, direct.key)).toMatchObject({ names: ['a.example.com'] })
    const own = await issue({ names: ['a.example.com'] })
    expect(check(own.certificate, own.key)).toMatchObject({ names: ['a.example.com'] })
  })

  it('drops names that are not valid hosts', async () => {
    const odd = await issue({ names: ['a.example.com', 'a, DNS:evil.example.com', '-x.example.com', 'A.example.com'] })
    expect(check(odd.certificate, odd.key)).toMatchObject({ names: ['a.example.com'] })
  })
})

const encrypted = () => {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' },
  })
  return privateKey
}
const longLabels = `${'a'.repeat(60)}.`.repeat(3)
const chainOf = async (asked: Parameters<typeof issue>[0]) => {
  const made = await issue({ names: ['a.example.com'], issuer: middle, ...asked })
  return [made.certificate + middle.certificate, made.key] as const
}

/** Pairs of a certificate and a key that are refused, by the code of the reason. */
/** Generating them is slow. */
const longKey = rsaKey(4104)
const broken: Readonly<Record<string, () => Promise<readonly [string, string]>>> = {
  no_certificate: async () => ['', leaf.key],
  'no_certificate, which has no end': async () => [leaf.certificate.split('-----END')[0] ?? '', leaf.key],
  malformed: async () => [leaf.certificate.replace('MII', 'AAA'), leaf.key],
  request: async () => ['-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n', leaf.key],
  key_as_certificate: async () => [leaf.key, leaf.key],
  key_in_chain: async () => [leaf.certificate + leaf.key, leaf.key],
  long_chain: async () => [leaf.certificate.repeat(11), leaf.key],
  no_key: async () => [leaf.certificate, 'secret'],
  several_keys: async () => [leaf.certificate, leaf.key + pemOf(ecKey())],
  public_key: async () => [leaf.certificate, '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n'],
  certificate_as_key: async () => [leaf.certificate, leaf.certificate],
  malformed_key: async () => [leaf.certificate, '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'],
  encrypted_key: async () => [leaf.certificate, encrypted()],
  'encrypted_key, of the old form': async () => [
    leaf.certificate,
    '-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n',
  ],
  key_mismatch: async () => [leaf.certificate + middle.certificate, pemOf(ecKey())],
  wrong_order: async () => [middle.certificate + leaf.certificate, leaf.key],
  'wrong_order, of the issuers': async () => {
    return [leaf.certificate + root.certificate + middle.certificate, leaf.key]
  },
  unrelated: async () => [leaf.certificate + (await authority({ subject: 'CN=Other' })).certificate, leaf.key],
  'unrelated, with the name of the issuer': async () => {
    return [leaf.certificate + (await authority({ subject: middle.name })).certificate, leaf.key]
  },
  incomplete_chain: async () => {
    const [certificate, key] = await chainOf({ issuerAt: 'http://authority.example/issuer.der' })
    return [certificate.slice(0, certificate.indexOf(middle.certificate)), key]
  },
  weak_key: () => chainOf({ key: rsaKey(1024) }),
  'weak_key, because it is so long that each handshake takes long': () => chainOf({ key: longKey }),
  'weak_key, on a curve that browsers do not know': () => chainOf({ key: ecKey('P-521') }),
  'weak_key, of another type': () => chainOf({ key: generateKeyPairSync('ed25519').privateKey }),
  weak_issuer: async () => {
    const weak = await authority({ key: rsaKey(1024) })
    const made = await issue({ names: ['a.example.com'], issuer: weak })
    return [made.certificate + weak.certificate, made.key]
  },
  weak_signature: () => chainOf({ hash: 'SHA-1' }),
  authority: () => chainOf({ isAuthority: true }),
  purpose: () => chainOf({ purpose: '1.3.6.1.5.5.7.3.2' }),
  no_names: () => chainOf({ names: [], subject: 'CN=a.example.com' }),
  'no_names, but addresses': () => chainOf({ names: [], addresses: ['192.0.2.1'] }),
  large_chain: () => chainOf({ names: Array.from({ length: 150 }, (_, index) => `${longLabels}${index}.example.com`) }),
  many_names: () => chainOf({ names: Array.from({ length: 201 }, (_, index) => `a${index}.example.com`) }),
  expired: () => chainOf({ from: -10, to: -1 }),
  issuer_expired: async () => {
    const old = await authority({ from: -10, to: -1 })
    const made = await issue({ names: ['a.example.com'], issuer: old })
    return [made.certificate + old.certificate, made.key]
  },
  not_yet_valid: () => chainOf({ from: 1, to: 10 }),
}

describe('an issuer', () => {
  it('may have a longer key, because no server computes with it', async () => {
    const slow = await authority({ key: longKey })
    const made = await issue({ names: ['a.example.com'], issuer: slow })
    expect(check(made.certificate + slow.certificate, made.key)).toMatchObject({ names: ['a.example.com'] })
  })
})

describe('a certificate that browsers do not accept', () => {
  it.each(Object.entries(broken))('is refused with a reason: %s', async (name, make) => {
    const found = check(...(await make()))
    expect(found).toMatchObject({ code: name.split(',')[0] })
    if (!isProblem(found)) throw new Error('it was accepted')
    expect(found.message).toMatch(/^(is|has|begins) .{10,}[^.]$/)
    expect(found.message).not.toContain('secret')
  })

  it('has more than twenty reasons for a refusal', () => {
    expect(new Set(Object.keys(broken).map((name) => name.split(',')[0])).size).toBeGreaterThanOrEqual(20)
  })
})
