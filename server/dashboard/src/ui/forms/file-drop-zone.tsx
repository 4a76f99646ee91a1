import { CloudUpload } from 'lucide-react'
import { type DragEvent, useId, useState } from 'react'

/** An area that takes dropped files, or files chosen by a click. */
export function FileDropZone({ onFile }: { readonly onFile: (file: File) => void }) {
  const [dragging, setDragging] = useState(false)
  const input = useId()
  const onDrop = (event: DragEvent) => {
    event.preventDefault()
    setDragging(false)
    for (const file of event.dataTransfer.files) onFile(file)
  }
  return (
    <label
      htmlFor={input}
      onDragOver={(event) => {
        event.preventDefault()
        setDragging(true)
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={onDrop}
      className={`grid justify-items-center gap-1 rounded-lg border-2 border-dashed p-6 text-center has-focus-visible:outline-2 has-focus-visible:outline-accent ${dragging ? 'border-accent bg-accent-soft' : 'border-line'}`}
    >
      <CloudUpload size={22} className="text-muted" aria-hidden="true" />
      <span className="font-medium">Drop files here, or choose them</span>
      <input
        id={input}
        type="file"
        multiple
        className="sr-only"
        onChange={(event) => {
          for (const file of event.target.files ?? []) onFile(file)
          event.target.value = ''
        }}
      />
    </label>
  )
}
