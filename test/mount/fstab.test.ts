import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hasProcess } from '../../src/disk/process-stat.ts'
import { canActAsOther, canRunAsOther } from '../support/fuse.ts'
import { Bench, HANGING_MS, type Outcome } from '../support/mounted-drive.ts'
import { letOthersPass, OTHER_UID } from '../support/other-user.ts'
import { PROGRAM, TOKEN } from '../support/service-process.ts'

let bench: Bench

beforeEach(async () => {
  bench = await Bench.start()
})

afterEach(() => bench.close())

const variables = (): Record<string, string> => ({
  HOME: bench.dir,
  XDG_RUNTIME_DIR: bench.dir,
  XDG_STATE_HOME: bench.dir,
  XDG_CONFIG_HOME: bench.dir,
})

/**
 * Runs a script as root, on a machine of its own as to mounts: there /sbin has nothing but the helper, and the fstab has
 * these lines.
 */
async function onMachine(script: string, fstab = ''): Promise<Outcome> {
  const sbin = join(bench.dir, 'sbin')
  mkdirSync(sbin, { recursive: true })
  symlinkSync(resolve(PROGRAM), join(sbin, 'mount.bagfs'))
  chmodSync(PROGRAM, 0o755)
  const table = join(bench.dir, 'fstab')
  writeFileSync(table, fstab)
  // A drive of a script that fails leaves as well.
  const places = [bench.mountpoint, join(bench.dir, 'home/drive')].join(' ')
  const trap = `trap 'umount -ql ${places} || true' EXIT`
  const prepare = `${trap}; mount --bind ${sbin} /sbin; touch /etc/fstab; mount --bind ${table} /etc/fstab`
  const args = ['-m', '--propagation', 'private', 'bash', '-ec', `${prepare}\n${script}`]
  const result = await execa('unshare', args, {
    env: variables(),
    cwd: bench.dir,
    timeout: HANGING_MS,
    killSignal: 'SIGKILL',
    reject: false,
  })
  return { code: result.exitCode, stdout: result.stdout, stderr: result.stderr }
}

async function login(): Promise<void> {
  const token = join(bench.dir, 'token')
  writeFileSync(token, TOKEN, { mode: 0o600 })
  const args = ['login', 'work', '--url', bench.service.proxy.url, '--token-file', token]
  expect(await bench.bagfs(args, { env: variables() })).toMatchObject({ code: 0 })
}

/** Kernels of containers and small machines may do without. */
function hasAutomounts(): boolean {
  return /\sautofs$/m.test(readFileSync('/proc/filesystems', 'utf8'))
}

describe.runIf(canActAsOther())('mount -t bagfs', () => {
  it('mounts a profile for root, with options of the drive and of the fstab', async () => {
    await login()
    const options = 'noauto,_netdev,x-systemd.automount,write-back,min-free=1MB'
    const outcome = await onMachine(`
      mount -t bagfs work ${bench.mountpoint} -o ${options}
      grep -c '${bench.mountpoint} fuse.bagfs' /proc/self/mounts
      ${process.execPath} ${resolve(PROGRAM)} status --json ${bench.mountpoint} | tr -d ' \n'; echo
      echo content > ${bench.mountpoint}/a.txt
      umount ${bench.mountpoint}
    `)
    expect(outcome.stderr).toContain(`Mounted at ${bench.mountpoint}`)
    expect(outcome).toEqual({
      code: 0,
      stdout: expect.any(String) as string,
      stderr: expect.any(String) as string,
    })
    const [count, status = ''] = outcome.stdout.split('\n')
    const { mode, pid } = JSON.parse(status) as { mode: string; pid: number }
    expect([count, mode]).toEqual(['1', 'back'])
    await expect.poll(() => hasProcess(pid), { timeout: HANGING_MS }).toBe(false)
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'content\n' })
  })

  it('mounts it where something else has its name, such as the directory of a drive', async () => {
    await login()
    const outcome = await onMachine(`
      mkdir work
      mount -t bagfs work ${bench.mountpoint} -o min-free=1MB,x-gvfs-show,x-gvfs-name=My%20work
      cat ${bench.mountpoint}/.xdg-volume-info
      umount ${bench.mountpoint}
    `)
    expect(outcome.stdout).toContain('Name=work')
    expect(outcome.code).toBe(0)
  })

  it.runIf(canRunAsOther())(
    'at boot, with no variables at all, is found by the commands of a session',
    async () => {
      mkdirSync(join(bench.dir, 'root'))
      mkdirSync(join(bench.dir, 'run'), { mode: 0o700 })
      writeFileSync(join(bench.dir, 'token'), TOKEN, { mode: 0o600 })
      const session = `env -i PATH=/usr/bin:/bin XDG_RUNTIME_DIR=${bench.dir}/run ${process.execPath} ${resolve(PROGRAM)}`
      const outcome = await onMachine(`
      mount --bind ${bench.dir}/root /root
      ${session} login work --url ${bench.service.proxy.url} --token-file ${bench.dir}/token
      env -i PATH=/usr/bin:/bin mount -t bagfs work ${bench.mountpoint} -o min-free=1MB
      echo content > ${bench.mountpoint}/a.txt
      ${session} explain ${bench.mountpoint}/a.txt
      ${session} status ${bench.mountpoint}
      ${session} logout work || echo logout $?
      ${session} umount ${bench.mountpoint}
      ${session} logout work
    `)
      expect(outcome.stdout).toContain('State:    stored')
      expect(outcome.stdout).toContain(`Drive:    ${bench.mountpoint} (`)
      expect(outcome.stdout).toContain('logout 7')
      expect(outcome.stderr).toContain(`A drive is mounted at ${bench.mountpoint}.`)
      expect(outcome.stderr).toContain('Logged out of work.')
      expect(outcome.code).toBe(0)
    },
  )

  it.runIf(hasAutomounts())('mounts at the first use (x-systemd.automount)', async () => {
    await login()
    const uses = `cat ${bench.mountpoint}/a.txt; echo more > ${bench.mountpoint}/b.txt`
    await bench.service.upload('a.txt', 'content\n')
    const mounts = `mount -t bagfs work ${bench.mountpoint} -o x-systemd.automount,min-free=1MB`
    const outcome = await onMachine(`
      python3 ${resolve('test/support/automount.py')} ${bench.mountpoint} '${uses}' ${mounts}
      ${process.execPath} ${resolve(PROGRAM)} umount ${bench.mountpoint}
      umount ${bench.mountpoint}
    `)
    expect(outcome.stderr).toContain(`Mounted at ${bench.mountpoint}`)
    expect(outcome).toMatchObject({ code: 0, stdout: 'content' })
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'content\n', 'b.txt': 'more\n' })
  })

  it('finds Node.js wherever it is, by the helper of docs/GUIDE.md', async () => {
    const [, steps = ''] =
      /\n(( {4}printf .*\n)(.*mount\.bagfs\n))/.exec(readFileSync('docs/GUIDE.md', 'utf8')) ?? []
    await login()
    const bin = join(bench.dir, 'bin')
    mkdirSync(bin)
    writeFileSync(join(bin, 'node'), '')
    symlinkSync(resolve(PROGRAM), join(bin, 'mount.bagfs'))
    const outcome = await onMachine(`
      mount --bind ${process.execPath} ${bin}/node
      for each in /usr/bin/node /bin/node; do
        if [ -e $each ]; then mount --bind /dev/null $each; fi
      done
      mount -t bagfs work ${bench.mountpoint} -o min-free=1MB || echo without $?
      (PATH=${bin}:$PATH; ${steps.replaceAll('sudo ', '')})
      mount -t bagfs work ${bench.mountpoint} -o min-free=1MB
      echo content > ${bench.mountpoint}/a.txt
      ${bin}/node ${resolve(PROGRAM)} umount ${bench.mountpoint}
    `)
    expect(outcome.stdout).toMatch(/^without 12[67]$/)
    expect(outcome.code).toBe(0)
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'content\n' })
  })

  it('says what is wrong in the words of mount, and mounts nothing', async () => {
    await login()
    const outcome = await onMachine(`mount -t bagfs work ${bench.mountpoint} -o cache=5GB`)
    expect(outcome.stderr).toContain('bagfs: "cache" is no option of a drive.')
    expect(outcome.code).toBe(2)
  })

  it.runIf(canRunAsOther())('mounts for a user the line of the fstab that has "user"', async () => {
    letOthersPass(bench.dir)
    const home = join(bench.dir, 'home')
    const drive = join(home, 'drive')
    // mount(8) takes PATH and HOME away from what it starts for a user.
    const places = `HOME=${home} XDG_CONFIG_HOME=${home} XDG_STATE_HOME=${home}`
    const as = `setpriv --reuid=${OTHER_UID} --regid=${OTHER_UID} --clear-groups env -i PATH=/usr/bin:/bin ${places} XDG_RUNTIME_DIR=${home}`
    const bagfs = `${as} ${process.execPath} ${resolve(PROGRAM)}`
    const outcome = await onMachine(
      `mknod -m 666 ${bench.dir}/fuse c 10 229; mount --bind ${bench.dir}/fuse /dev/fuse
      mkdir -p ${drive}
      printf %s ${TOKEN} > ${home}/token
      chmod 600 ${home}/token; chmod 700 ${home}
      chown -R ${OTHER_UID}:${OTHER_UID} ${home}
      ${bagfs} login work --url ${bench.service.proxy.url} --token-file ${home}/token
      ${as} mount ${drive}
      ${as} sh -c 'echo mine > ${drive}/b.txt; stat -c %u ${drive}/b.txt'
      ${bagfs} umount ${drive}`,
      `work ${drive} bagfs user,noauto,_netdev,min-free=1MB 0 0\n`,
    )
    expect(outcome).toEqual({
      code: 0,
      stdout: String(OTHER_UID),
      stderr: expect.any(String) as string,
    })
    expect(await bench.service.contents()).toEqual({ 'b.txt': 'mine\n' })
  })
})
