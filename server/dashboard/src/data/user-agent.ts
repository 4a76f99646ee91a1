type Rule = readonly [sign: RegExp, name: string]

/** The first that fits counts: browsers name those that they descend from, too. */
const browsers: readonly Rule[] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\/|\bOpera\b/, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Headless)?(?:Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/\bVersion\/\S+ .*Safari\//, 'Safari'],
]

const systems: readonly Rule[] = [
  [/\biPhone\b|\biPod\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
]

/** A User-Agent header for people, such as `Firefox on Linux`. Other programs are told by their own name, as `curl`. */
export function browserOf(userAgent: string | null): string {
  if (userAgent === null || userAgent === '') return 'Unknown'
  const browser = nameIn(browsers, userAgent)
  const system = nameIn(systems, userAgent)
  if (browser !== undefined) return system === undefined ? browser : `${browser} on ${system}`
  // RFC 9110, 10.1.5: products come in the order of their importance.
  const [, product] = /^([\w.-]+)(?:\/|\s|$)/.exec(userAgent) ?? []
  if (product !== undefined && product !== 'Mozilla') return product
  return system === undefined ? 'Unknown' : `Unknown on ${system}`
}

const nameIn = (rules: readonly Rule[], text: string): string | undefined =>
  rules.find(([sign]) => sign.test(text))?.[1]
