import { getNonce } from 'get-nonce'

/*
 * The content security policy of the page allows only style elements with its nonce, and no style attributes in markup.
 * The terminal library makes both, and has no setting for either.
 */

/** Calls a function. Style elements that the function makes get the nonce of the page. */
export function withNonce(callback: () => void): void {
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    const element = Document.prototype.createElement.call(document, name, options)
    if (name === 'style') element.nonce = getNonce() ?? ''
    return element
  }) as typeof document.createElement
  try {
    callback()
  } finally {
    Reflect.deleteProperty(document, 'createElement')
  }
}

/**
 * Turns style attributes of `span` elements, which have the colours of a terminal, into properties: the policy allows
 * scripts to set these.
 */
export function allowColours(): void {
  HTMLSpanElement.prototype.setAttribute = function (name: string, value: string) {
    if (name === 'style') this.style.cssText = value
    else Element.prototype.setAttribute.call(this, name, value)
  }
}
