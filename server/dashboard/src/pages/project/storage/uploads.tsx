import { X } from 'lucide-react'
import { Button } from '../../../ui/controls/button.tsx'
import { Meter } from '../../../ui/display/meter.tsx'
import { FileDropZone } from '../../../ui/forms/file-drop-zone.tsx'
import { ErrorAlert } from '../../../ui/page/states.tsx'
import { type Upload, useUploads } from './use-uploads.ts'

/** Uploads files to a project and shows their progress. */
export function Uploads({ projectId }: { readonly projectId: string }) {
  const { uploads, start, retry, remove } = useUploads(projectId)
  return (
    <div className="grid gap-3">
      <FileDropZone onFile={start} />
      {uploads.map((upload) => (
        <div key={upload.id} className="flex items-center gap-3 rounded-lg border border-line bg-panel p-3">
          <div className="min-w-0 flex-1">
            <Progress upload={upload} onRetry={() => retry(upload)} />
          </div>
          <Button
            variant="quiet"
            size="icon"
            aria-label={upload.error === null ? `Cancel ${upload.file.name}` : `Dismiss ${upload.file.name}`}
            onClick={() => (upload.error === null ? upload.controller.abort() : remove(upload.id))}
          >
            <X size={14} />
          </Button>
        </div>
      ))}
    </div>
  )
}

function Progress({ upload, onRetry }: { readonly upload: Upload; readonly onRetry: () => void }) {
  const { file, progress, error } = upload
  if (error === null) {
    return (
      <Meter progress label={file.name} value={progress * 100} max={100} text={`${Math.round(progress * 100)} %`} />
    )
  }
  return (
    <div className="grid gap-2">
      <p className="break-all">{file.name}</p>
      <ErrorAlert
        error={error}
        retry={onRetry}
        networkMessage="The connection was lost before the upload was complete."
      />
    </div>
  )
}
