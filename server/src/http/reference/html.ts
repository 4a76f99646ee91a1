/** A string of HTML, which is not escaped again. */
export interface Html {
  readonly html: string
}

type Part = string | number | Html | readonly Html[]

/** A template tag for HTML. Escapes every value that is not HTML itself. */
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

/** Returns escaped text with everything between backticks set as code. */
export function prose(text: string): Html {
  const pieces = text.split('`').map((piece, at) => (at % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`))
  return html`${pieces}`
}
