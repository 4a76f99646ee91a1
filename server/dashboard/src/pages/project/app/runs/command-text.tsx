import { textOfWords } from '../../../../data/run/command-words.ts'

/** A command as it is typed, cut where it is long. */
export function CommandText({ words }: { readonly words: readonly string[] }) {
  const text = textOfWords(words)
  return (
    <code className="wrap-anywhere line-clamp-2" title={text}>
      {text}
    </code>
  )
}
