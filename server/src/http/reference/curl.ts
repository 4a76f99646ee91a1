import type { OperationObject, Parameter } from './openapi.ts'

/** Returns the request as a curl command for a POSIX shell, with the variables `$API` and `$KEY`. */
export function curlOf(
  method: string,
  path: string,
  operation: OperationObject,
  parameters: readonly Parameter[],
): string {
  const ids = new Map(parameters.map(({ name, schema }) => [name, String(schema.examples?.[0] ?? '')]))
  const address = path.replace(/\{(\w+)\}/g, (_, name: string) => ids.get(name) ?? '')
  const lines = [
    `curl ${method === 'GET' || method === 'POST' ? '' : `-X ${method} `}"$API${address}"`,
    '  -H "Authorization: Bearer $KEY"',
  ]
  const content = operation.requestBody?.content
  if (content?.['application/json'] !== undefined) {
    lines.push(`  -H 'Content-Type: application/json'`, `  -d '${quoted(content['application/json'].example)}'`)
  } else if (content?.['multipart/form-data'] !== undefined) {
    lines.push('  -F file=@picture.png')
  } else if (content?.['application/x-git-bundle'] !== undefined) {
    lines.push(`  -H 'Content-Type: application/x-git-bundle'`, '  --data-binary @app.bundle')
  } else if (method === 'POST') {
    lines[0] = `curl -X POST "$API${address}"`
  }
  return lines.join(' \\\n')
}

/** Returns JSON that can stand between single quotes. */
function quoted(example: unknown): string {
  return JSON.stringify(example, null, 2).replaceAll("'", `'\\''`).replaceAll('\n', '\n  ')
}
