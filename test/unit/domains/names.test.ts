import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseDomainName, unicodeName } from '../../../server/src/features/domains/names.ts'

const own = { domain: 'apps.fairlead.dev', dashboardHost: 'panel.harbour.io' }
const parse = (text: string) => parseDomainName(text, own)
const long = (length: number): string => `${'a.'.repeat((length - 13) / 2)}b.example.com`

/** Refused names by the code of the refusal. */
const refused: Readonly<Record<string, readonly string[]>> = {
  empty: ['', ' ', '\t\n'],
  url: [
    'https://shop.example.com',
    'http://shop.example.com/path?query#part',
    'HTTPS://shop.example.com:8443/',
    'shop.example.com/',
    'shop.example.com/about',
    'shop.example.com?x=1',
    'shop.example.com#x',
    '//shop.example.com',
    'shop.example.com\\x',
    'ftp://user:password@example.com',
  ],
  user: ['me@example.com', 'user:password@example.com'],
  port: ['shop.example.com:443', 'example.com:'],
  ip_address: [
    '203.0.113.7',
    '203.0.113.7:443',
    '[2001:db8::1]',
    '[2001:db8::1]:443',
    '2001:db8::1',
    '::',
    '127.1',
    '0x7f.1',
    '2130706433',
    'example.1',
    'example.0x1f',
    '1.2.3.4.',
    'example。1',
  ],
  trailing_dot: ['example.com.', 'www.example.com.', 'example。com。'],
  empty_label: ['.', '..', '.example.com', 'www..example.com', 'example.com..', '*..example.com'],
  single_label: ['intranet', 'xn--bcher-kva', 'com'],
  label_too_long: [`${'a'.repeat(64)}.example.com`, `${'ü'.repeat(60)}.example.com`],
  name_too_long: [long(255), 'a'.repeat(100_000), `${'ü.'.repeat(100)}com`],
  hyphen: [
    'xn--.example.com',
    'xn--strasse-.de',
    '-shop.example.com',
    'shop-.example.com',
    'shop.-example.com',
    'shop.example.com-',
    '-.example.com',
  ],
  reserved_label: ['ab--cd.example.com', '3---sn.example.com'],
  underscore: ['_acme-challenge.example.com', 'my_shop.example.com', '*.my_shop.com'],
  character: [
    'shop example.com',
    'exam%70le.com',
    'shop!.example.com',
    'a,b.com',
    '{a}.com',
    'a\u0000b.example.com',
    'a\u200bb.example.com',
    'a\u00adb.example.com',
    'a\u202eb.example.com',
    '\u0301a.example.com',
    '½.example.com',
    'Ⅳ.example.com',
    'l·.cat',
    'a·b.cat',
    '−1.example.com',
    '1א.com',
  ],
  emoji: [
    '💩.example.com',
    'i❤.ws',
    'xn--ls8h.la',
    'xn--i-7iq.ws',
    '🇩🇪.example.com',
    '1️⃣.example.com',
    '👩‍💻.example.com',
  ],
  punycode: ['xn--0.example.com', 'xn--a.com', 'xn--a-ecp.ru', 'xn--zzzzzzzzzzzzzz.com'],
  not_canonical: ['ＥＸＡＭＰＬＥ.com', 'ﬁsh.example.com', '１２３.example.com'],
  mixed_scripts: [
    'pаypal.com',
    'gооgle.com',
    'xn--pypal-4ve.com',
    'ωord.com',
    'аррӏе.com',
    'xn--80ak6aa92e.com',
    'αшx.com',
  ],
  wildcard_place: ['*', '*example.com', 'www.*.example.com', '*.*.example.com', 'w*.example.com', 'example.*'],
  wildcard_of_suffix: ['*.com', '*.co.uk', '*.eu.org', '*.duckdns.org', '*.xn--fiqs8s'],
  public_suffix: ['co.uk', 'uk.com', 'eu.org', 'al.eu.org', 'gov.uk', '公司.cn', 'city.yokohama.kawasaki.jp'.slice(14)],
  platform_name: [
    'x.github.io',
    'github.io',
    'x.herokuapp.com',
    'www.x.herokuapp.com',
    'x.vercel.app',
    'x.netlify.app',
    'x.pages.dev',
    'x.s3.amazonaws.com',
    'x.eu-central-1.elasticbeanstalk.com',
    'x.azurewebsites.net',
    'x.fly.dev',
    '*.x.github.io',
    '*.github.io',
  ],
  special_use: [
    'localhost',
    'shop.localhost',
    'printer.local',
    'db.internal',
    'shop.test',
    'x.invalid',
    'x.example',
    'facebookwkhpilnemxj7asaniu7vnjjbiltxjqhye3mhbshg7kx5tfyd.onion',
    '1.0.0.127.in-addr.arpa',
    'home.arpa',
    'nas.home.arpa',
    '*.test',
    '*.shop.test',
  ],
  own_name: [
    'apps.fairlead.dev',
    'shop-x.apps.fairlead.dev',
    'a.b.apps.fairlead.dev',
    'APPS.fairlead.dev',
    '*.apps.fairlead.dev',
    'panel.harbour.io',
    'x.panel.harbour.io',
    '*.panel.harbour.io',
  ],
  covers_own_name: ['*.fairlead.dev', '*.harbour.io'],
}

const accepted: readonly (readonly [text: string, name: string])[] = [
  ['example.com', 'example.com'],
  ['  Shop.Example.COM\n', 'shop.example.com'],
  ['*.example.com', '*.example.com'],
  ['*.shop.example.co.uk', '*.shop.example.co.uk'],
  ['example.co.uk', 'example.co.uk'],
  ['1.example.com', '1.example.com'],
  ['123.com', '123.com'],
  ['a--b.com', 'a--b.com'],
  ['a.b-c.d.example.museum', 'a.b-c.d.example.museum'],
  [`${'a'.repeat(63)}.example.com`, `${'a'.repeat(63)}.example.com`],
  [long(253), long(253)],
  ['bücher.de', 'xn--bcher-kva.de'],
  ['BÜCHER.de', 'xn--bcher-kva.de'],
  ['bu\u0308cher.de', 'xn--bcher-kva.de'],
  ['XN--BCHER-KVA.de', 'xn--bcher-kva.de'],
  ['straße.de', 'xn--strae-oqa.de'],
  ['STRAẞE.de', 'xn--strae-oqa.de'],
  ['xn--strae-oqa.de', 'xn--strae-oqa.de'],
  ['ΟΔΟΣ.gr', 'xn--pxavbq.gr'],
  ['例子.中国', 'xn--fsqu00a.xn--fiqs8s'],
  ['例子。中国', 'xn--fsqu00a.xn--fiqs8s'],
  ['пример.рф', 'xn--e1afmkfd.xn--p1ai'],
  ['сосо.рф', 'xn--n1aahb.xn--p1ai'],
  ['ドメイン.jp', 'xn--eckwd4c7c.jp'],
  ['日本語tシャツ.jp', 'xn--t-mfutbzhx04zcvb2w6i.jp'],
  ['한국어.kr', 'xn--3e0bk47br7k.kr'],
  ['مثال.com', 'xn--mgbh0fb.com'],
  ['נטע.co.il', 'xn--debph.co.il'],
  ['उदाहरण.com', 'xn--p1b6ci4b4b3a.com'],
  ['paral·lel.cat', 'xn--parallel-koa.cat'],
  ['*.bücher.de', '*.xn--bcher-kva.de'],
  // Names that registries sell, or that dynamic DNS services lend: people set their records themselves.
  ['shop.uk.com', 'shop.uk.com'],
  ['mysite.eu.org', 'mysite.eu.org'],
  ['mysite.al.eu.org', 'mysite.al.eu.org'],
  ['shop.br.com', 'shop.br.com'],
  ['shop.co.com', 'shop.co.com'],
  ['mine.duckdns.org', 'mine.duckdns.org'],
  ['*.mine.duckdns.org', '*.mine.duckdns.org'],
  ['mine.ddns.net', 'mine.ddns.net'],
  // Parents of the server's names, and names beside them.
  ['fairlead.dev', 'fairlead.dev'],
  ['www.fairlead.dev', 'www.fairlead.dev'],
  ['harbour.io', 'harbour.io'],
  ['notapps.fairlead.dev', 'notapps.fairlead.dev'],
  ['*.www.fairlead.dev', '*.www.fairlead.dev'],
  // Platforms' own names, and top-level domains that are newer than the list.
  ['www.github.com', 'www.github.com'],
  ['shop.brandnewtld', 'shop.brandnewtld'],
]

describe('domain names', () => {
  const cases = Object.entries(refused).flatMap(([code, names]) => names.map((name) => [code, name] as const))

  it.each(cases)('are refused with %s: %j', (code, name) => {
    const parsed = parse(name)
    expect(parsed).toMatchObject({ ok: false, code })
    expect(parsed.ok ? '' : parsed.message).toMatch(/^must .{10,250}$/u)
  })

  it.each(accepted)('are accepted: %j as %s', (text, name) => {
    expect(parse(text)).toEqual({ ok: true, name })
    expect(parse(unicodeName(name))).toEqual({ ok: true, name })
  })

  it('appear in their refusal', () => {
    expect(parse('https://shop.example.com/x')).toMatchObject({ message: expect.stringContaining('shop.example.com') })
    expect(parse('example.com.')).toMatchObject({ message: expect.stringContaining('“example.com”') })
    expect(parse('x.co.uk.')).toMatchObject({ code: 'trailing_dot' })
    expect(parse('co.uk')).toMatchObject({ message: expect.stringContaining('example.co.uk') })
  })

  it('are never refused by the names of a server that has none', () => {
    expect(parseDomainName('apps.fairlead.dev', { domain: null, dashboardHost: null })).toMatchObject({ ok: true })
  })
})

describe('every text', () => {
  const scripts = fc.constantFrom(
    ...'aZ0-._*xn--üßαяа例あ한ש١💩\u200d\u0301。:/@ []%'.split(''),
    'xn--',
    '.com',
    '.co.uk',
    '*.',
    '.github.io',
  )
  const texts = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.string({ unit: 'grapheme', maxLength: 80 }),
    fc.array(scripts, { maxLength: 40 }).map((parts) => parts.join('')),
    fc.domain(),
    fc.domain().map((name) => `*.${name}`),
    fc.webUrl(),
    fc
      .tuple(fc.string({ unit: 'grapheme', maxLength: 12 }), fc.constantFrom('.com', '.de', '.рф'))
      .map((parts) => parts.join('')),
  )

  it('is refused with a reason, or gives a name that fits every limit and is stable', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const parsed = parse(text)
        expect(parsed.ok ? 'must be fine' : parsed.message).toMatch(/^must [^\p{Cc}]{5,400}$/u)
        if (!parsed.ok) return
        const { name } = parsed
        expect(name).toMatch(/^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
        expect(name.length).toBeLessThanOrEqual(253)
        expect(parse(name)).toEqual(parsed)
        expect(parse(unicodeName(name))).toEqual(parsed)
      }),
      { numRuns: 5_000 },
    )
  })
})
