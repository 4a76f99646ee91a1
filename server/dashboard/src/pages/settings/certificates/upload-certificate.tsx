import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { api } from '../../../data/client.ts'
import { pemPartsOf } from '../../../data/domains/certificates.ts'
import { projectsQuery } from '../../../data/queries.ts'
import { SelectField, TextAreaField } from '../../../ui/forms/field.tsx'
import { FileDropZone } from '../../../ui/forms/file-drop-zone.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { textOf } from '../../../ui/forms/values.ts'

/** No certificate with its chain and its key comes near it. */
const mostBytes = 1_000_000

/** Uploads a certificate and its key, which are pasted, or files that are dropped. */
export function UploadCertificate({ onDone }: { readonly onDone: () => void }) {
  const upload = useUpload(onDone)
  const projects = useQuery(projectsQuery)
  const certificate = useRef<HTMLTextAreaElement>(null)
  const privateKey = useRef<HTMLTextAreaElement>(null)
  const [problem, setProblem] = useState<string>()
  const read = async (file: File) => {
    if (file.size > mostBytes) return setProblem(`${file.name} is too large to be a certificate or a private key.`)
    const parts = pemPartsOf(await file.text())
    setProblem(parts === undefined ? `${file.name} has no certificate and no private key in PEM.` : undefined)
    if (parts?.certificates) fill(certificate.current, parts.certificates)
    if (parts?.privateKey) fill(privateKey.current, parts.privateKey)
  }
  return (
    <Form mutation={upload} submit="Upload certificate" onCancel={onDone}>
      <FileDropZone onFile={(file) => void read(file)} />
      {problem !== undefined && (
        // Not an error of a field: those keep the form from showing any other error of the server.
        <p role="alert" className="wrap-anywhere text-[13px] text-bad">
          {problem}
        </p>
      )}
      <TextAreaField
        ref={certificate}
        label="Certificate"
        name="certificate"
        className="h-28"
        placeholder="-----BEGIN CERTIFICATE-----"
        hint="In PEM: the certificate itself, and behind it those of its issuers."
      />
      <TextAreaField
        ref={privateKey}
        label="Private key"
        name="private_key"
        className="h-28"
        placeholder="-----BEGIN PRIVATE KEY-----"
        hint="In PEM, without a password. The server stores it encrypted, and never shows it."
      />
      <SelectField label="Project" name="project_id">
        <option value="">All projects of the account</option>
        {projects.data?.projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}

/** Puts a text into a control as typing does, so that the dialog asks before it is lost. */
function fill(area: HTMLTextAreaElement | null, text: string): void {
  if (area === null) return
  area.value = text
  area.dispatchEvent(new Event('input', { bubbles: true }))
}

function useUpload(onDone: () => void) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: (values: FormData) => {
      const projectId = textOf(values, 'project_id')
      return api.certificates.create({
        body: {
          certificate: textOf(values, 'certificate'),
          private_key: textOf(values, 'private_key'),
          ...(projectId !== '' && { project_id: projectId }),
        },
      })
    },
    // The values of a mutation have the key: they are forgotten with the dialog.
    gcTime: 0,
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['certificates'] })
      onDone()
    },
  })
}
