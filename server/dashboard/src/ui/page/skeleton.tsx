const widths = ['w-2/3', 'w-1/2', 'w-3/5', 'w-2/5', 'w-1/2']

/** Grey lines in place of content that is being loaded. */
export function Skeleton() {
  return (
    <div aria-hidden="true" className="grid animate-pulse gap-3">
      {widths.map((width, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines never change.
        <div key={index} className={`h-4 rounded bg-line/70 ${width}`} />
      ))}
    </div>
  )
}
