package mock

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Languages that items are in.
const (
	english = iota
	german
	french
	spanish
	polish
	russian
	greek
	japanese_
	chinese
	korean_
	languages
)

// language is what text is made of: words without meaning in their row, but with the lengths, letters and
// punctuation of the language, since that is what parsers, filters and compressors see.
type language struct {
	tag              string // BCP 47
	words            []string
	names            []string // of authors
	topics           []string // categories
	space, stop, ask string
}

func split(s string) []string { return strings.Fields(s) }

var vocabulary = [languages]language{
	english: {"en", split(
		`the river rises after heavy rain council votes on new bridge while engineers measure old pillars of stone
		a small bakery opens early and sells bread made with rye local team wins again despite weather café owner says prices
		will stay naïve readers write about trains that arrive late museum shows maps from seven centuries researchers found
		why birds sing before dawn in cities software update breaks printers across offices farmers expect good harvest €5
		ticket brings more people into theatre nobody knows how many stars are there résumé of a long year`),
		[]string{"Zoë Hart", "Miles O'Connor", "Anna Brontë", "Jude Fletcher", "R. & D. Stone"},
		split("Weather Politics Science Sport Culture Technology"), " ", ". ", "? "},
	german: {"de", split(
		`die Brücke über den Fluss wird nächstes Jahr erneuert während der Rat über Züge und Straßen berät viele
		Bäcker öffnen früher weil Brötchen schon um fünf gefragt sind Forscherinnen messen größere Wellen an der Küste das
		Museum zeigt alte Karten aus Köln und Würzburg niemand weiß wie schön der Sommer wird Mannschaft gewinnt trotz Regen
		Preise für Gemüse fallen leicht Schüler üben täglich Geige Behörden prüfen Anträge künftig schneller`),
		[]string{"Jörg Müller", "Käthe Groß", "Änne Schäfer", "Uwe Köhler"},
		split("Wetter Politik Forschung Sport Kultur Verkehr"), " ", ". ", "? "},
	french: {"fr", split(
		`le conseil a décidé de réparer le vieux pont après les fortes pluies une boulangerie ouvre dès l’aube et
		vend du pain à l’ancienne les élèves étudient où naissent les rivières musée présente cartes dessinées à la main
		équipe gagne malgré le vent près de la forêt des chercheuses écoutent chanter oiseaux prix baissent légèrement garçon
		reçoit première leçon maïs sœur cœur déjà été bientôt théâtre rouvre ses portes`),
		[]string{"Éloïse Lefèvre", "François Gérard", "Noël Châtelain", "Inès Aubry"},
		split("Météo Politique Sciences Sport Culture Société"), " ", ". ", " ? "},
	spanish: {"es", split(
		`el río crece después de la lluvia y el ayuntamiento reúne a los vecinos mañana señora Núñez abre su panadería
		temprano niños aprenden música en la escuela del corazón del barrio museo enseña mapas antiguos según investigadores
		pájaros cantan más tarde en otoño equipo ganó aunque hacía frío ¿cuánto cuesta un billete? camión lleva plátanos
		canción exposición jardín árbol última estación`),
		[]string{"Íñigo Peña", "María Ángeles Ruiz", "Begoña Muñoz", "José Luis Cañas"},
		split("Tiempo Política Ciencia Deporte Cultura Economía"), " ", ". ", "? "},
	polish: {"pl", split(
		`rzeka wzbiera po ulewnym deszczu a rada miasta głosuje nad nowym mostem piekarnia otwiera się wcześnie i sprzedaje
		chleb żytni badacze słuchają śpiewu ptaków przed świtem drużyna wygrała mimo złej pogody muzeum pokazuje mapy sprzed
		siedmiu wieków uczniowie ćwiczą źle dźwięk łódź gęś miód wąż święto jabłko rośnie ciężko później będą tańsze bilety`),
		[]string{"Łukasz Wójcik", "Małgorzata Żak", "Zdzisław Ćwik"},
		split("Pogoda Polityka Nauka Sport Kultura Społeczeństwo"), " ", ". ", "? "},
	russian: {"ru", split(
		`после сильного дождя река поднялась и городской совет обсуждает новый мост пока инженеры измеряют старые опоры
		пекарня открывается рано утром учёные слушают птиц перед рассветом музей показывает карты семи веков команда выиграла
		несмотря на погоду цены на овощи немного снизились дети учатся играть на скрипке ёж съел объявление поезд опаздывает
		жители пишут письма в редакцию театр снова открыт`),
		[]string{"Анна Королёва", "Пётр Ильин", "Мария Щукина"},
		split("Погода Политика Наука Спорт Культура Общество"), " ", ". ", "? "},
	greek: {"el", split(
		`το ποτάμι ανεβαίνει μετά τη βροχή και ο δήμος αποφασίζει για τη νέα γέφυρα ενώ μηχανικοί μετρούν παλιές πέτρες ο
		φούρνος ανοίγει νωρίς το πρωί και πουλάει ψωμί ερευνητές ακούν πουλιά πριν την αυγή μουσείο δείχνει χάρτες από επτά
		αιώνες ομάδα κέρδισε παρά τον καιρό παιδιά μαθαίνουν μουσική στο σχολείο ήλιος θάλασσα ύστερα`),
		[]string{"Ελένη Παππά", "Γιώργος Νικολάου", "Άννα Ψαρά"},
		split("Καιρός Πολιτική Επιστήμη Αθλητισμός Πολιτισμός Κοινωνία"), " ", ". ", "; "},
	japanese_: {"ja", split(`昨日の 大雨で 川の 水位が 上がり 市議会は 新しい 橋の 計画を 話し合った 研究者は 夜明け前に 鳴く 鳥の 声を 調べている 駅前の パン屋は
		朝五時に 開店し 焼きたての パンを 売る 博物館では 七世紀に わたる 地図を 展示 チームは 悪天候にも かかわらず 勝利した 野菜の 価格が
		少し 下がった 子どもたちは 学校で バイオリンを 習う 列車は 遅れて 到着`),
		[]string{"山田花子", "佐藤健", "鈴木あゆみ"},
		split("天気 政治 科学 スポーツ 文化 社会"), "", "。", "？"},
	chinese: {"zh", split(`昨天 的 大雨 使 河水 上涨 市议会 讨论 新桥 的 计划 工程师 测量 旧 桥墩 面包店 清晨 五点 开门 出售 新鲜 面包 研究人员 倾听 黎明前
		的 鸟鸣 博物馆 展出 七个 世纪 的 地图 球队 冒雨 获胜 蔬菜 价格 略有 下降 孩子们 在 学校 学习 音乐 火车 晚点 到达 居民 写信 给 编辑部`),
		[]string{"王小明", "李静", "赵云飞"},
		split("天气 政治 科学 体育 文化 社会"), "", "。", "？"},
	korean_: {"ko", split(`어제 내린 큰비로 강물이 불어나 시의회는 새 다리 계획을 논의했다 빵집은 아침 다섯 시에 문을 열고 갓 구운 빵을 판다 연구원들은 새벽에
		우는 새의 소리를 듣는다 박물관은 칠백 년 동안의 지도를 전시한다 팀은 궂은 날씨에도 이겼다 채소 값이 조금 내렸다 아이들은 학교에서
		음악을 배운다 기차가 늦게 도착했다`),
		[]string{"김하늘", "이준호", "박서연"},
		split("날씨 정치 과학 스포츠 문화 사회"), " ", ". ", "? "},
}

// extras are at the end of some titles: what a title may hold and trips those who forget to escape, to
// normalise, or that a character may take four bytes.
var extras = [...]string{" – R&D", " <3", ` “quoted”`, ` "live"`, " 🚲🌧️", " it's", " — 50 % off",
	" a\u0301", " C++ & Go"}

// phrase appends n words, the first one capitalised.
func (l *language) phrase(dst []byte, d *dice, n int) []byte {
	dst = capital(dst, l.words[d.below(len(l.words))])
	for range n - 1 {
		dst = append(dst, l.space...)
		dst = append(dst, l.words[d.below(len(l.words))]...)
	}
	return dst
}

// capital appends a word with its first letter in upper case, if there is such a thing.
func capital(dst []byte, word string) []byte {
	r, size := utf8.DecodeRuneInString(word)
	return append(utf8.AppendRune(dst, unicode.ToUpper(r)), word[size:]...)
}

// sentences appends text of about n characters: whole sentences, the last one cut short at a word.
func (l *language) sentences(dst []byte, d *dice, n int) []byte {
	start, left, words := len(dst), n, 0
	for {
		word := l.words[d.below(len(l.words))]
		long := runes(word) + len(l.space)
		if left < long+1 {
			break
		}
		if words == 0 {
			dst = capital(dst, word)
		} else {
			dst = append(dst, word...)
		}
		left -= long
		if words++; words >= 6 && d.below(6) == 0 {
			end := l.stop
			if d.below(8) == 0 {
				end = l.ask
			}
			dst = append(dst, end...)
			left -= runes(end)
			words = 0
			continue
		}
		dst = append(dst, l.space...)
	}
	switch {
	case words > 0:
		dst = append(dst[:len(dst)-len(l.space)], strings.TrimRight(l.stop, " ")...)
	case len(dst) > start: // after a whole sentence
		dst = dst[:len(dst)-len(l.space)]
	}
	return dst
}

// runes counts characters; most words are ASCII or of one script, so this is not worth a table.
func runes(s string) (n int) {
	for i := range len(s) {
		if s[i]&0xc0 != 0x80 {
			n++
		}
	}
	return n
}
