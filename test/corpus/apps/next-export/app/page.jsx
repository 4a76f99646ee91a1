export default function Home() {
  return <h1>Exported by Next.js</h1>
}
