/*
 * The Public Suffix List has two kinds of private suffixes, and does not distinguish them. Below the first kind, a
 * platform gives names to its customers' pages and sets their DNS records itself. Below the second kind, customers set
 * the records themselves: a registry sells the names, as for `com`, or a dynamic DNS service lends them. These are the
 * suffixes of the second kind in the list of August 2026, by the organisations that it names; each also stands for the
 * suffixes below it.
 */

const registries = `
  16-b.it 32-b.it 64-b.it abkhazia.su ac.ru adygeya.ru adygeya.su ae.org aeroport.fr africa.com aktyubinsk.su
  arkhangelsk.su armenia.su art.pl ashgabad.su aus.basketball avocat.fr azerbaijan.su balashov.su bashkiria.ru
  bashkiria.su bielsko.pl bir.ru biz.dk biz.ng biz.ua biz.wf br.com bryansk.su bukhara.su can.re cbg.ru cc.ua
  chambagri.fr chimkent.su chirurgiens-dentistes.fr cn.com co.biz.ng co.bn co.business co.ca co.com co.cz co.de
  co.dk co.education co.events co.financial co.krd co.network co.nl co.no co.pl co.place co.ro co.scot
  co.technology co.ua col.ng com.de com.ru com.se conn.uk copro.uk cx.ua dagestan.ru dagestan.su de.com dl.biz.ng
  dy.fi e.id east-kazakhstan.su ec.cc edu.krd edu.ru eu.cc eu.com eu.org exnet.su experts-comptables.fr firm.dk
  firm.ng gb.net gda.pl gdansk.pl gdynia.pl gen.ng georgia.su gliwice.pl go.biz.ng gov.ru gr.com graphic.design
  grozny.ru grozny.su gu.cc gv.uy hk.com hk.org hosp.uk hu.net iki.fi in.net inc.hk inf.ua info.cx int.ru ir.md
  it.com ivanovo.su jambyl.su jozi.biz jp.net jpn.com kalmykia.ru kalmykia.su kaluga.su karacol.su karaganda.su
  karelia.su khakassia.su krakow.pl krasnik.pl krasnodar.su kurgan.su kustanai.ru kustanai.su leczna.pl lenug.su
  lg.biz.ng lodz.pl ltd.hk ltd.ng ltd.ua lubartow.pl lublin.pl mangyshlak.su marine.ru me.scot med.pl medecin.fr
  mex.com mil.ru mordovia.ru mordovia.su msk.ru msk.su murmansk.su mytis.ru nalchik.ru nalchik.su name.pm navoi.su
  net.ru netlib.re nett.to ngo.ng ngo.us north-kazakhstan.su notaires.fr nov.ru nov.su nyc.mn nz.basketball
  obninsk.su of.je on.biz.ng online.th org.ru org.scot org.yt orx.biz pabianice.pl penza.su pharmacien.fr plc.ng
  plock.pl pokrovsk.su poniatowa.pl port.fr poznan.pl pp.ru pp.ua priv.at pyatigorsk.ru radio.am radio.fm reg.dk
  rs.ba ru.com ru.net sa.com sch.tf sch.wf se.net shop.ro shop.th sieradz.pl skierniewice.pl sochi.su sopot.pl
  spb.ru spb.su store.dk swidnik.pl tashkent.su termez.su togliatti.su torun.pl troitsk.su tselinograd.su tula.su
  tunk.org tuva.su uk.cc uk.com uk.net us.cc us.com us.org v.ua veterinaire.fr vladikavkaz.ru vladikavkaz.su
  vladimir.ru vladimir.su vologda.su wa.us web.in wroc.pl xn--41a.xn--p1acf xn--80aaa0cvac.xn--p1acf
  xn--90a1af.xn--p1acf xn--90amc.xn--p1acf xn--c1avg.xn--p1acf xn--h1ahn.xn--p1acf xn--h1aliz.xn--p1acf
  xn--j1adp.xn--p1acf xn--j1aef.xn--p1acf xn--j1ael8b.xn--p1acf za.bz za.com za.net za.org zakopane.pl zgierz.pl
  zone.id
`

const dynamicDns = `
  0am.jp 0g0.jp 0j0.jp 0t0.jp 1cooldns.com 3utilities.com abrdns.com accesscam.org alpha-myqnapcloud.com
  at-band-camp.net ath.cx barrel-of-knowledge.info barrell-of-knowledge.info better-than.tv blogdns.com
  blogdns.net blogdns.org blogsite.org blogsyte.com boldlygoingnowhere.org bounceme.net brasilia.me broke-it.net
  bumbleshrimp.com buyshouses.net cable-modem.org camdvr.org casacam.net cc.cd ccwu.cc cechire.com ciscofreak.com
  cloud-ip.biz cloud-ip.cc cloudns.asia cloudns.be cloudns.biz cloudns.cc cloudns.ch cloudns.cl cloudns.club
  cloudns.cx cloudns.eu cloudns.in cloudns.info cloudns.nz cloudns.org cloudns.ph cloudns.pro cloudns.pw
  cloudns.us collegefan.org couchpotatofries.org daemon.asia damnserver.com ddns-ip.net ddns.berlin ddns.me
  ddns.net ddns.wtf ddnsfree.com ddnsgeek.com ddnsguru.com ddnsking.com ddnss.de ddnss.org ddnssec.de de5.net
  dedyn.io dev-myqnapcloud.com direct.quickconnect.cn direct.quickconnect.to diskstation.me ditchyourip.com
  dix.asia dns-cloud.net dns-dynamic.net dnsabr.com dnsalias.com dnsalias.net dnsalias.org dnsdojo.com dnsdojo.net
  dnsdojo.org dnsfor.me dnshome.at dnshome.cloud dnshome.de dnshome.eu dnshome.it dnsiskinky.com dnsking.ch
  dnsup.net dnsupdate.info dnsupdater.de does-it.net doesntexist.com doesntexist.org dontexist.com dontexist.net
  dontexist.org doomdns.com doomdns.org dpdns.org drayddns.com dscloud.biz dscloud.me dscloud.mobi dsmynas.com
  dsmynas.net dsmynas.org duckdns.org dvrcam.info dvrdns.org dyn-berlin.de dyn-ip24.de dyn-o-saur.com
  dyn.addr.tools dyn.cosidns.de dyn.ddnss.de dyn.home-webserver.de dyn.now dynalias.com dynalias.net dynalias.org
  dynamic-dns.info dynamisches-dns.de dynathome.net dyndns-at-home.com dyndns-at-work.com dyndns-blog.com
  dyndns-free.com dyndns-home.com dyndns-ip.com dyndns-mail.com dyndns-office.com dyndns-pics.com
  dyndns-remote.com dyndns-server.com dyndns-web.com dyndns-wiki.com dyndns-work.com dyndns.biz dyndns.ddnss.de
  dyndns.info dyndns.org dyndns.tv dyndns.ws dyndns1.de dyndnssec.de dynns.com dynserv.org dynu.net dynuddns.com
  dynuddns.net dynuhosting.com dynv6.net eating-organic.net endofinternet.net endofinternet.org
  endoftheinternet.org est-a-la-maison.com est-a-la-masion.com est-le-patron.com est-mon-blogueur.com f5.si
  familyds.com familyds.net familyds.org fantasyleague.cc fbx-os.fr fbxos.fr feste-ip.net firewall-gateway.com
  firewall-gateway.de firewall-gateway.net for-better.biz for-more.biz for-our.info for-some.biz for-the.biz
  forgot.her.name forgot.his.name forumz.info freebox-os.com freebox-os.fr freeboxos.com freeboxos.fr freeddns.org
  freeddns.us freemyip.com from-ak.com from-al.com from-ar.com from-az.net from-ca.com from-co.net from-ct.com
  from-dc.com from-de.com from-fl.com from-ga.com from-hi.com from-ia.com from-id.com from-il.com from-in.com
  from-ks.com from-ky.com from-la.net from-ma.com from-md.com from-me.org from-mi.com from-mn.com from-mo.com
  from-ms.com from-mt.com from-nc.com from-nd.com from-ne.com from-nh.com from-nj.com from-nm.com from-nv.com
  from-ny.net from-oh.com from-ok.com from-or.com from-pa.com from-pr.com from-ri.com from-sc.com from-sd.com
  from-tn.com from-tx.com from-ut.com from-va.com from-vt.com from-wa.com from-wi.com from-wv.com from-wy.com
  ftpaccess.cc fuettertdasnetz.de game-host.org game-server.cc geekgalaxy.com getmyip.com gets-it.net giize.com
  gleeze.com go.dyndns.org goip.de golffan.us gotdns.ch gotdns.com gotdns.org groks-the.info groks-this.info
  ham-radio-op.net health-carereform.com heimdns.de heimdns.online here-for-more.info hicam.net hidns.co hidns.vip
  hobby-site.com hobby-site.org home-webserver.de home.dyndns.org home64.de homedns.org homeftp.net homeftp.org
  homeip.net homelinux.com homelinux.net homelinux.org homesecuritymac.com homesecuritypc.com homeunix.com
  homeunix.net homeunix.org hopto.me hopto.org i234.me iamallama.com ibxos.it iliadboxos.it ilovecollege.info
  in-berlin.de in-brb.de in-butter.de in-dsl.de in-dsl.net in-dsl.org in-the-band.net in-vpn.de in-vpn.net
  in-vpn.org indevs.in internet-dns.de iobb.net ip-ddns.com ip-dynamic.org ipv64.de ipv64.net is-a-anarchist.com
  is-a-blogger.com is-a-bookkeeper.com is-a-bruinsfan.org is-a-bulls-fan.com is-a-candidate.org is-a-caterer.com
  is-a-celticsfan.org is-a-chef.com is-a-chef.net is-a-chef.org is-a-conservative.com is-a-cpa.com
  is-a-cubicle-slave.com is-a-democrat.com is-a-designer.com is-a-doctor.com is-a-financialadvisor.com
  is-a-geek.com is-a-geek.net is-a-geek.org is-a-green.com is-a-guru.com is-a-hard-worker.com is-a-hunter.com
  is-a-knight.org is-a-landscaper.com is-a-lawyer.com is-a-liberal.com is-a-libertarian.com is-a-linux-user.org
  is-a-llama.com is-a-musician.com is-a-nascarfan.com is-a-nurse.com is-a-painter.com is-a-patsfan.org
  is-a-personaltrainer.com is-a-photographer.com is-a-player.com is-a-republican.com is-a-rockstar.com
  is-a-socialist.com is-a-soxfan.org is-a-student.com is-a-teacher.com is-a-techie.com is-a-therapist.com
  is-an-accountant.com is-an-actor.com is-an-actress.com is-an-anarchist.com is-an-artist.com is-an-engineer.com
  is-an-entertainer.com is-by.us is-certified.com is-found.org is-gone.com is-into-anime.com is-into-cars.com
  is-into-cartoons.com is-into-games.com is-leet.com is-lost.org is-not-certified.com is-saved.org is-slick.com
  is-uberleet.com is-very-bad.org is-very-evil.org is-very-good.org is-very-nice.org is-very-sweet.org
  is-with-theband.com isa-geek.com isa-geek.net isa-geek.org isa-hockeynut.com issmarterthanyou.com isteingeek.de
  istmein.de kdns.fr keenetic.io keenetic.link keenetic.name keenetic.pro keyword-on.net kicks-ass.net
  kicks-ass.org knowsitall.info knx-server.net kozow.com l-o-g-i-n.de land-4-sale.us lebtimnetz.de leitungsen.de
  likes-pie.com likescandy.com live-on.net loginto.me logoip.com logoip.de loseyourip.com merseine.nu mine.nu
  misconfused.org mlbfan.org mmafan.biz my-firewall.org my-gateway.de my-router.de myactivedirectory.com
  myaddr.dev myaddr.io myaddr.tools myasustor.com mycloudnas.com myddns.rocks mydissent.net mydns.bz mydns.jp
  mydns.tw mydns.vc myds.me myeffect.net myfirewall.org myfritz.link myfritz.net myftp.biz myftp.org
  myhome-server.de myiphost.com mymediapc.net mynascloud.com mypets.ws myphotos.cc mypi.co mypsx.net
  myqnapcloud.cn myqnapcloud.com mysecuritycamera.com mysecuritycamera.net mysecuritycamera.org mysynology.net
  myvnc.com mywire.org neat-url.com nerdpol.ovh net-freaks.com nflfan.org nhlfan.net no-ip.biz no-ip.ca
  no-ip.co.uk no-ip.info no-ip.net no-ip.org noho.st nohost.me noip.me noip.us now-dns.net now-dns.org
  nsupdate.info ntdll.top office-on-the.net on-the-web.tv onthewifi.com ooguy.com opik.net ownip.net pgafan.net
  pgw.jp pivohosting.com podzone.net podzone.org point2this.com pointto.us privatizehealthinsurance.net
  quicksytes.com qzz.io read-books.org readmyblog.org redirectme.net remotewd.com resolve.bar routingthecloud.com
  routingthecloud.net routingthecloud.org roxa.org saves-the-whales.com scrapper-site.net scrapping.cc
  securitytactics.com selfip.biz selfip.com selfip.info selfip.net selfip.org sells-for-less.com sells-for-u.com
  sells-it.net sellsyourhome.org servebbs.com servebbs.net servebbs.org servebeer.com serveblog.net
  servecounterstrike.com serveexchange.com serveftp.com serveftp.net serveftp.org servegame.com servegame.org
  servehalflife.com servehttp.com servehumour.com serveirc.com serveminecraft.net servemp3.com servep2p.com
  servepics.com servequake.com server-on.net servesarcasm.com shacknet.nu simple-url.com sn.mynetname.net
  soundcast.me space-to-rent.com spdns.de spdns.eu spdns.org spryt.net srvdns.de sryze.cc static-access.net
  stuff-4-sale.org stuff-4-sale.us stufftoread.com synology.me sytes.net taifun-dns.de tcp4.me teaches-yoga.com
  theworkpc.com thruhere.net traeumtgerade.de ufcfan.org unusualperson.com urown.cloud us.ci us.kg vicp.fun
  vpndns.net vpnplus.to we.bs webhop.biz webhop.info webhop.me webhop.net webhop.org webredirect.org
  wiredbladehosting.com wjg.jp workisboring.com worse-than.tv writesthisblog.com x443.pw xx.kg yicp.fun ynh.fr
  zabc.net zapto.org zicp.fun
`

const openSuffixes = new Set(`${registries} ${dynamicDns}`.trim().split(/\s+/))

/** True when customers hold names below a private suffix and set their DNS records themselves. */
export function isOpenSuffix(suffix: string): boolean {
  const labels = suffix.split('.')
  return labels.some((_, index) => openSuffixes.has(labels.slice(index).join('.')))
}
