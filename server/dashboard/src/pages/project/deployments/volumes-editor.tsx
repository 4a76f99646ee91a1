import { Plus } from 'lucide-react'
import { Button } from '../../../ui/controls/button.tsx'
import { FieldError } from '../../../ui/forms/field.tsx'
import { useFieldErrors } from '../../../ui/forms/field-errors.ts'
import { type Pair, PairRow } from '../../../ui/forms/pair-row.tsx'

interface VolumesEditorProps {
  readonly volumes: readonly Pair[]
  readonly onChange: (volumes: readonly Pair[]) => void
}

/**
 * Returns a name that several lines share; `undefined` without duplicates. A request would keep only the last of these
 * lines.
 */
export function repeatedVolume(volumes: readonly Pair[]): string | undefined {
  const names = volumes.map(({ name }) => name.trim()).filter((name) => name !== '')
  return names.find((name, index) => names.indexOf(name) !== index)
}

/** The volumes of an image: a name and the path in the container on each line. */
export function VolumesEditor({ volumes, onChange }: VolumesEditorProps) {
  const refused = useFieldErrors()('volumes')
  const repeated = repeatedVolume(volumes)
  const error = repeated === undefined ? refused : `Several volumes have the name ${repeated}. Give each its own.`
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 font-medium">Volumes</legend>
      {volumes.map((row, index) => (
        <PairRow
          // biome-ignore lint/suspicious/noArrayIndexKey: the name changes while it is typed, so it is not a key.
          key={index}
          label={`volume ${index + 1}`}
          valueLabel="Path"
          placeholders={{ name: 'uploads', value: '/var/lib/uploads' }}
          row={row}
          field="volumes"
          onChange={(changed) => onChange(volumes.with(index, changed))}
          onRemove={() => onChange(volumes.toSpliced(index, 1))}
        />
      ))}
      {error !== undefined && <FieldError>{error}</FieldError>}
      <div>
        <Button size="small" icon={<Plus size={14} />} onClick={() => onChange([...volumes, { name: '', value: '' }])}>
          Add a volume
        </Button>
      </div>
      <p className="text-[13px] text-muted">
        Folders of the container that outlive releases. Without any here, an app keeps its volumes.
      </p>
    </fieldset>
  )
}
