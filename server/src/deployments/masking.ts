/** Shorter values (`1`, `true`, `debug`) are no secrets, and masking them would make any text unreadable. */
const shortestSecret = 8

/** Replaces the values of an app's variables in a text, as they are and in their base64 and URL-encoded forms. */
export function maskValues(text: string, values: readonly string[]): string {
  const forms = values
    .filter((value) => value.length >= shortestSecret)
    .flatMap((value) => [value, Buffer.from(value).toString('base64'), encodeURIComponent(value.toWellFormed())])
  // The longest first: one value may be part of another.
  const ordered = [...new Set(forms)].sort((a, b) => b.length - a.length)
  return ordered.reduce((masked, form) => masked.replaceAll(form, '***'), text)
}
