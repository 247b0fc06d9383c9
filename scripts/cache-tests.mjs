// cache-tests.mjs PACKAGE RESULTS DOCS prints the score of a run of http-cache-tests and each check that failed, and
// exits with 1 if the page does not list it.
import fs from 'fs'
import { pathToFileURL } from 'url'

const [dir, results, docs] = process.argv.slice(2)
const load = async name => (await import(pathToFileURL(`${dir}/tests/${name}.mjs`))).default
const suites = [...await load('index'), await load('surrogate-control')]
const got = JSON.parse(fs.readFileSync(results))
const listed = new Set([...fs.readFileSync(docs, 'utf8').matchAll(/^\| `([^`]+)` \|/gm)].map(m => m[1]))

let passed = 0
const unlisted = []
for (const test of suites.flatMap(s => s.tests).filter(t => t.id in got)) {
  const result = got[test.id]
  if (result === true) {
    passed++
    if (listed.has(test.id)) console.log(`passes, though listed: ${test.id}`)
    continue
  }
  if (!listed.has(test.id)) unlisted.push(test.id)
  console.log(`${(test.kind || 'required').padEnd(8)} ${test.id}: ${result[1]}`)
}
const all = suites.flatMap(s => s.tests).length
console.log(`${passed} of ${Object.keys(got).length} passed; ${all} checks with those for browsers`)
if (unlisted.length > 0) {
  console.log(`these fail and are not listed in docs/http-cache.md: ${unlisted.join(' ')}`)
  process.exit(1)
}
