import { useState } from 'react'
import { SelectField, TextField } from '../../../ui/forms/field.tsx'
import type { Pair } from '../../../ui/forms/pair-row.tsx'
import { textOf } from '../../../ui/forms/values.ts'
import { VolumesEditor } from './volumes-editor.tsx'

/** The values with which the form of a new release of an existing app starts. */
export interface Source {
  readonly name: string
  /** Null for an uploaded source and an image. */
  readonly git_url: string | null
  readonly source_id: string | null
  readonly image: { readonly reference: string } | null
  readonly commit: string | null
  readonly branch: string | null
  /** The folder of the app; `null` for the one that the repository names. */
  readonly root: string | null
}

/** Returns the source that the fields describe, as a request has it. */
export function sourceOf(values: FormData, source_id: string | null, volumes: readonly Pair[]) {
  if (values.has('image')) return { image: textOf(values, 'image'), ...volumesOf(volumes) }
  const root = textOf(values, 'root')
  return { ...(source_id === null ? repositoryOf(values) : { source_id }), ...(root !== '' && { root }) }
}

/** Lines with neither a name nor a path count as none. */
function volumesOf(rows: readonly Pair[]) {
  const given = rows
    .map(({ name, value }) => [name.trim(), value.trim()] as const)
    .filter(([name, path]) => name !== '' || path !== '')
  return given.length === 0 ? {} : { volumes: Object.fromEntries(given) }
}

function repositoryOf(values: FormData) {
  const [branch, token] = [textOf(values, 'branch'), textOf(values, 'git_token')]
  return {
    git_url: textOf(values, 'git_url'),
    ...(branch !== '' && { branch }),
    ...(token !== '' && { git_token: token }),
  }
}

interface SourceFieldsProps {
  readonly source: Source | undefined
  /** The volumes of an image. */
  readonly volumes: readonly Pair[]
  readonly onVolumes: (volumes: readonly Pair[]) => void
}

/** The fields for the source of a release. A new app chooses between a repository and an image. */
export function SourceFields({ source, volumes, onVolumes }: SourceFieldsProps) {
  const [isImage, setImage] = useState(source?.image != null)
  return (
    <>
      {source === undefined && (
        <SelectField
          label="From"
          name="kind"
          value={isImage ? 'image' : 'repository'}
          onChange={({ target }) => setImage(target.value === 'image')}
        >
          <option value="repository">A git repository</option>
          <option value="image">A container image</option>
        </SelectField>
      )}
      {isImage ? (
        <>
          <ImageField source={source} />
          <VolumesEditor volumes={volumes} onChange={onVolumes} />
        </>
      ) : (
        <TreeFields source={source} />
      )}
    </>
  )
}

function ImageField({ source }: { readonly source: Source | undefined }) {
  return (
    <TextField
      label="Image"
      name="image"
      defaultValue={source?.image?.reference}
      autoComplete="off"
      spellCheck={false}
      className="font-mono"
      placeholder="registry.example.com/team/shop:1.4"
      hint="The server pulls it once, and runs it by its digest. Credentials for private registries are in the settings of the project."
    />
  )
}

function TreeFields({ source }: { readonly source: Source | undefined }) {
  return (
    <>
      {source?.source_id ? <UploadedSource source={source} /> : <RepositoryFields source={source} />}
      <TextField
        label="Folder"
        name="root"
        defaultValue={source?.root ?? undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder="the one that fairlead.json names, or the top"
        hint="The folder of the app, if the repository has several."
      />
    </>
  )
}

function UploadedSource({ source: { branch, commit } }: { readonly source: Source }) {
  return (
    <p className="text-muted">
      The uploaded commit <code>{commit?.slice(0, 12)}</code>
      {branch !== null && ` of ${branch}`}. To deploy another one, run <code>fairlead deploy</code>.
    </p>
  )
}

function RepositoryFields({ source }: { readonly source: Source | undefined }) {
  return (
    <>
      <TextField
        label="Git repository"
        name="git_url"
        defaultValue={source?.git_url ?? undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder="https://github.com/you/app.git"
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Branch"
          name="branch"
          defaultValue={source?.branch ?? undefined}
          autoComplete="off"
          spellCheck={false}
          placeholder="the default branch"
        />
        <TextField
          label="Access token"
          name="git_token"
          type="password"
          autoComplete="off"
          placeholder="for private repositories"
          hint={source && 'The server does not store it: enter it again if the repository needs one.'}
        />
      </div>
    </>
  )
}
