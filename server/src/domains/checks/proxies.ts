/** Returns the name of the proxy or content network that gave an answer; null when nothing tells of one. */
export function proxyIn(headers: Readonly<Record<string, string>>): string | null {
  const found = signs.find(({ header, value }) => value.test(headers[header] ?? '\0'))
  return found?.name ?? null
}

const signs: readonly { readonly name: string; readonly header: string; readonly value: RegExp }[] = [
  { name: 'Cloudflare', header: 'server', value: /^cloudflare/i },
  { name: 'Cloudflare', header: 'cf-ray', value: /^[^\0]/ },
  { name: 'Amazon CloudFront', header: 'x-amz-cf-id', value: /^[^\0]/ },
  { name: 'Amazon CloudFront', header: 'server', value: /^cloudfront/i },
  { name: 'Fastly', header: 'x-served-by', value: /^cache-/i },
  { name: 'Akamai', header: 'server', value: /^akamai/i },
  { name: 'Azure Front Door', header: 'x-azure-ref', value: /^[^\0]/ },
  { name: 'Bunny', header: 'server', value: /^bunnycdn/i },
  { name: 'Sucuri', header: 'x-sucuri-id', value: /^[^\0]/ },
  { name: 'Imperva', header: 'x-iinfo', value: /^[^\0]/ },
  { name: 'Varnish', header: 'x-varnish', value: /^[^\0]/ },
  { name: 'a proxy', header: 'via', value: /^[^\0]/ },
]
