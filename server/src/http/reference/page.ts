import { exampleOf, fieldsOf, type Schema } from './json-schema.ts'
import { type OpenApi, type OperationObject, type Parameter, type Response, titleOf } from './openapi.ts'

interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: OperationObject
}

/**
 * Returns the API reference as one page, with `originMark` for the address of the server. It works without scripts: the
 * document contains everything.
 */
export function referencePage(document: OpenApi): string {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Entry => ({ method: method.toUpperCase(), path, operation })),
  )
  const groups = document.tags.map(({ name }) => ({
    name,
    entries: entries.filter(({ operation }) => operation.tags.includes(name)),
  }))
  const { title, description } = document.info
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="stylesheet" href="/docs/style.css">
<script type="module" src="/docs/page.js"></script>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header>
<a class="brand" href="#content">${title}</a>
<a href="/openapi.json">openapi.json</a>
</header>
<details class="menu" open>
<summary>Contents</summary>
<nav aria-label="Contents">
<ul><li><a href="#basics">Basics</a></li><li><a href="#errors">Errors</a></li></ul>
${groups.map(({ name, entries }) => html`<h2>${titleOf(name)}</h2><ul>${entries.map(menuItem)}</ul>`)}
</nav>
</details>
<main id="content" tabindex="-1">
${basics(title, description)}
${errors(document)}
${groups.map(
  ({ name, entries }) => html`<section class="group" id="${name}"><h2>${titleOf(name)}</h2>
${entries.map((entry) => operationSection(entry, document))}</section>`,
)}
</main>
</body>
</html>
`
  return page.html
}

function menuItem({ method, operation }: Entry): Html {
  return html`<li><a href="#${operation.operationId}"><span>${operation.summary}</span>${verb(method)}</a></li>`
}

function verb(method: string): Html {
  return html`<span class="verb ${method.toLowerCase()}">${method}</span>`
}

function basics(title: string, description: string): Html {
  return html`<section id="basics"><h1>${title}</h1>
${description.split('\n\n').map((paragraph) => html`<p>${prose(paragraph)}</p>`)}
<p>The base address is the address of this server followed by <code>/v1</code>. The examples use two variables:</p>
${sample('Shell', `API=${originMark}/v1\nKEY=fl_…`, 'base')}
<h2>Repeating a request</h2>
<p>${prose('Send an `Idempotency-Key` that you choose with every `POST`. If no answer arrives, send the same request with the same key again: nothing is done twice, and you get the first answer, marked `Idempotent-Replayed: true`. Keys are remembered for 24 hours.')}</p>
<h2>Long lists</h2>
<p>${prose('A page holds up to `limit` items, 1000 by default. While there are more, the header `Link` has the address of the next page, marked `rel="next"`.')}</p>
</section>`
}

function errors(document: OpenApi): Html {
  const responses = document.components['responses'] as Readonly<Record<string, Response>>
  const schema = document.components.schemas['Error'] ?? {}
  const rows = Object.entries(responses).map(([code, { description }]) => {
    return html`<tr><td><code>${code}</code></td><td>${prose(description)}</td></tr>`
  })
  const example = responses['invalid_request']?.content?.['application/json']?.example
  return html`<section id="errors"><h2>Errors</h2>
<p>Every error has this body, and one of six codes.</p>
${fieldTable(schema, document)}
${sample('400', JSON.stringify(example, null, 2))}
<table><thead><tr><th>Code</th><th>Meaning</th></tr></thead><tbody>${rows}</tbody></table>
</section>`
}

function operationSection({ method, path, operation }: Entry, document: OpenApi): Html {
  const parameters = operation.parameters.map((parameter) => resolve<Parameter>(parameter, document))
  const body = operation.requestBody?.content['application/json']
  const [status = '', success] = Object.entries(operation.responses)[0] ?? []
  const answer = success === undefined ? undefined : resolve<Response>(success, document).content?.['application/json']
  const failures = Object.entries(operation.responses).slice(1)
  return html`<article id="${operation.operationId}">
<h3><a href="#${operation.operationId}">${operation.summary}</a></h3>
<p class="route">${verb(method)} <code>${path}</code></p>
${operation.description.split('\n\n').map((paragraph) => html`<p>${prose(paragraph)}</p>`)}
<div class="columns"><div>
${parameters.length === 0 ? nothing : html`<h4>Parameters</h4>${parameterTable(parameters)}`}
${body === undefined ? nothing : html`<h4>Body</h4>${fieldTable(body.schema, document, true)}`}
${answer === undefined ? nothing : html`<h4>Answer</h4>${fieldTable(answer.schema, document)}`}
<p class="failures">Errors: ${failures.map(([code, response]) => html`<a href="#errors"><code>${code} ${nameOf(response)}</code></a> `)}</p>
</div><div class="samples">
${sample('curl', curlOf(method, path, operation, parameters), operation.operationId)}
${sample(status, answer === undefined ? '' : JSON.stringify(answer.example, null, 2))}
</div></div>
</article>`
}

function nameOf(response: Response | { readonly $ref: string }): string {
  return '$ref' in response ? (response.$ref.split('/').at(-1) ?? '') : ''
}

function parameterTable(parameters: readonly Parameter[]): Html {
  const rows = parameters.map(({ name, in: location, required, description, schema }) =>
    row(name, location, required, description, exampleText(schema)),
  )
  return html`<dl class="fields">${rows}</dl>`
}

function exampleText(schema: Schema): string {
  return schema.examples === undefined ? '' : `Such as \`${String(exampleOf(schema, 'project'))}\`.`
}

/** Marks required fields only in bodies that clients send (`sent`). */
function fieldTable(schema: Schema, document: OpenApi, sent = false): Html {
  const rows = fieldsOf(resolve<Schema>(schema, document)).map(
    ({ path, type, required, description, range, details }) =>
      row(path, type, sent && required, description, range, details),
  )
  return html`<dl class="fields">${rows}</dl>`
}

function row(name: string, type: string, required: boolean, ...texts: readonly string[]): Html {
  const text = texts.filter((each) => each !== '').join(' ')
  return html`<div><dt><code>${name}</code> <span class="type">${type}</span>${
    required ? html` <span class="required">required</span>` : nothing
  }</dt>${text === '' ? nothing : html`<dd>${prose(text)}</dd>`}</div>`
}

function sample(title: string, code: string, copies?: string): Html {
  const copy = copies === undefined ? nothing : html`<button type="button" class="copy" hidden>Copy</button>`
  return html`<figure class="sample"><figcaption>${title}${copy}</figcaption>${
    code === '' ? html`<p>No body.</p>` : html`<pre tabindex="0"><code>${code}</code></pre>`
  }</figure>`
}

function resolve<T>(value: unknown, document: OpenApi): T {
  const target = (value as { $ref?: string }).$ref
  if (target === undefined) return value as T
  const steps = target.split('/').slice(1)
  return steps.reduce<unknown>((found, step) => (found as Record<string, unknown>)[step], document) as T
}

export interface Html {
  readonly html: string
}

type Part = string | number | Html | readonly Html[]

/** A template tag for HTML. It escapes every value that is not `Html`. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { html: String.raw({ raw: strings }, ...parts.map(render)) }
}

export const nothing: Html = { html: '' }

function render(part: Part): string {
  if (typeof part === 'string' || typeof part === 'number') return escapeText(String(part))
  return 'html' in part ? part.html : part.map((each) => each.html).join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character)
}

/** Escapes a text, and sets words between backticks as code. */
export function prose(text: string): Html {
  const pieces = text.split('`').map((piece, at) => (at % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`))
  return html`${pieces}`
}

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

/** Stands for the server's address, which depends on the reader. */
export const originMark = 'https://fairlead.invalid'
