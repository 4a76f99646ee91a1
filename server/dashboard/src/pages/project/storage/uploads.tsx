import { useQueryClient } from '@tanstack/react-query'
import { CloudUpload, X } from 'lucide-react'
import { type DragEvent, useId, useRef, useState } from 'react'
import { upload } from '../../../data/upload.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Meter } from '../../../ui/display/meter.tsx'
import { Problem } from '../../../ui/page/states.tsx'

interface Upload {
  readonly id: number
  readonly file: File
  /** From 0 to 1. */
  readonly part: number
  readonly error: unknown
  readonly stop: AbortController
}

/** A place to drop files on, and what is on its way. */
export function Uploads({ projectId }: { readonly projectId: string }) {
  const [uploads, setUploads] = useState<readonly Upload[]>([])
  const [over, setOver] = useState(false)
  const next = useRef(0)
  const input = useId()
  const queries = useQueryClient()

  const change = (id: number, part: Partial<Upload>) =>
    setUploads((all) => all.map((each) => (each.id === id ? { ...each, ...part } : each)))
  const forget = (id: number) => setUploads((all) => all.filter((each) => each.id !== id))

  const begin = async (file: File) => {
    const id = next.current++
    const stop = new AbortController()
    setUploads((all) => [...all, { id, file, part: 0, error: null, stop }])
    try {
      await upload(projectId, file, { signal: stop.signal, onProgress: (part) => change(id, { part }) })
      forget(id)
    } catch (error) {
      if (stop.signal.aborted) forget(id)
      else change(id, { error })
    }
    // Also after a failure: of what was complete the answer alone may be lost.
    await queries.invalidateQueries({ queryKey: ['projects', projectId] })
  }
  const again = ({ id, file }: Upload) => {
    forget(id)
    void begin(file)
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    for (const file of event.dataTransfer.files) void begin(file)
  }
  return (
    <div className="grid gap-3">
      <label
        htmlFor={input}
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
        className={`grid justify-items-center gap-1 rounded-lg border-2 border-dashed p-6 text-center has-focus-visible:outline-2 has-focus-visible:outline-accent ${over ? 'border-accent bg-accent-soft' : 'border-line'}`}
      >
        <CloudUpload size={22} className="text-muted" aria-hidden="true" />
        <span className="font-medium">Drop files here, or choose them</span>
        <input
          id={input}
          type="file"
          multiple
          className="sr-only"
          onChange={(event) => {
            for (const file of event.target.files ?? []) void begin(file)
            event.target.value = ''
          }}
        />
      </label>
      {uploads.map((each) => (
        <div key={each.id} className="flex items-center gap-3 rounded-lg border border-line bg-panel p-3">
          <div className="min-w-0 flex-1">
            <Progress upload={each} onAgain={() => again(each)} />
          </div>
          <Button
            look="quiet"
            size="icon"
            aria-label={each.error === null ? `Cancel ${each.file.name}` : `Dismiss ${each.file.name}`}
            onClick={() => (each.error === null ? each.stop.abort() : forget(each.id))}
          >
            <X size={14} />
          </Button>
        </div>
      ))}
    </div>
  )
}

function Progress({ upload, onAgain }: { readonly upload: Upload; readonly onAgain: () => void }) {
  const { file, part, error } = upload
  if (error === null) {
    return <Meter label={file.name} value={part * 100} most={100} text={`${Math.round(part * 100)} %`} />
  }
  return (
    <div className="grid gap-2">
      <p className="break-all">{file.name}</p>
      <Problem error={error} retry={onAgain} lost="The connection was lost before the whole file was there." />
    </div>
  )
}
