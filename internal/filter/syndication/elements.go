package syndication

import "strings"

// meaning is what an element says of the feed or item it stands in, or what is in it.
type meaning uint8

const (
	saysNothing meaning = iota
	aChannel
	anItem
	aTitle
	aSummary // or description
	aContent
	aLink
	anAtomLink
	anID
	aPublished
	anUpdated
	aDate    // of both
	anAuthor // as a text
	aPerson  // as elements
	aCategory
	aTerm  // a category in attributes, of Atom
	aGenre // a category in an attribute, of iTunes
	keywords
	aLanguage
	aCopyright
	aGenerator
	anImage // in an attribute
	aLogo
	anIcon
	aMedium // of Media RSS, perhaps an image
	mediaGroup
	anEnclosure
	commentsURL
	aTTL
	aPeriod // of updates
	aFrequency
	imageElements
	skippedHours
	skippedDays
)

// form is what an element's text is written in.
type form uint8

const (
	plainText form = iota
	htmlText
	atomText // as its attributes say
)

// element is what a name means in a place. Of several elements that say the same the one of the lowest rank
// counts.
type element struct {
	says meaning
	rank uint8
	form form
}

// senses are what a name means outside and inside of items.
type senses struct{ ofFeed, ofItem element }

type qualified struct {
	in   vocabulary
	name string // in lower case
}

// atomLast is added to the ranks of Atom's elements in RSS, where they are the last that is asked.
const atomLast = 3

// elements are those that mean something.
var elements = func() map[qualified]senses {
	m := map[qualified]senses{}
	outside := func(in vocabulary, names string, e element) {
		for name := range strings.FieldsSeq(names) {
			s := m[qualified{in, name}]
			s.ofFeed = e
			m[qualified{in, name}] = s
		}
	}
	inside := func(in vocabulary, names string, e element) {
		for name := range strings.FieldsSeq(names) {
			s := m[qualified{in, name}]
			s.ofItem = e
			m[qualified{in, name}] = s
		}
	}
	both := func(in vocabulary, names string, e element) {
		outside(in, names, e)
		inside(in, names, e)
	}

	outside(native, "channel", element{says: aChannel})
	both(native, "item", element{says: anItem})
	both(native, "title", element{aTitle, 0, htmlText})
	both(native, "link", element{says: aLink})
	both(native, "description", element{aSummary, 0, htmlText})
	both(native, "pubdate", element{says: aPublished})
	both(native, "author", element{says: anAuthor})
	both(native, "category", element{says: aCategory})
	inside(native, "guid", element{says: anID})
	inside(native, "enclosure", element{says: anEnclosure})
	inside(native, "comments", element{says: commentsURL})
	inside(native, "encoded body fullitem", element{aContent, 1, htmlText})
	outside(native, "language", element{says: aLanguage})
	outside(native, "copyright", element{says: aCopyright})
	outside(native, "generator", element{says: aGenerator})
	outside(native, "managingeditor webmaster", element{says: anAuthor})
	outside(native, "lastbuilddate", element{says: anUpdated})
	outside(native, "ttl", element{says: aTTL})
	outside(native, "image", element{says: imageElements})
	outside(native, "skiphours", element{says: skippedHours})
	outside(native, "skipdays", element{says: skippedDays})

	both(atom, "entry item", element{says: anItem})
	both(atom, "title", element{aTitle, 0, atomText})
	both(atom, "link", element{says: anAtomLink})
	both(atom, "published", element{says: aPublished})
	both(atom, "updated modified", element{says: anUpdated})
	both(atom, "author", element{says: aPerson})
	both(atom, "category", element{says: aTerm})
	inside(atom, "id", element{says: anID})
	inside(atom, "summary", element{aSummary, 0, atomText})
	inside(atom, "content", element{aContent, 0, atomText})
	inside(atom, "issued", element{says: aPublished})
	inside(atom, "created", element{says: aPublished, rank: 1})
	outside(atom, "subtitle tagline", element{aSummary, 0, atomText})
	outside(atom, "info", element{aSummary, 1, atomText})
	outside(atom, "rights copyright", element{aCopyright, 0, atomText})
	outside(atom, "generator", element{says: aGenerator})
	outside(atom, "icon", element{says: anIcon})
	outside(atom, "logo", element{says: aLogo})

	both(dublinCore, "title", element{aTitle, 1, htmlText})
	both(dublinCore, "description abstract", element{aSummary, 1, htmlText})
	both(dublinCore, "creator author", element{says: anAuthor})
	both(dublinCore, "subject", element{says: aCategory})
	both(dublinCore, "language", element{says: aLanguage, rank: 1})
	both(dublinCore, "issued created", element{says: aPublished, rank: 1})
	both(dublinCore, "modified", element{says: anUpdated, rank: 1})
	inside(dublinCore, "date", element{says: aDate, rank: 1})
	inside(dublinCore, "identifier", element{says: anID})
	outside(dublinCore, "date", element{says: anUpdated, rank: 1})
	outside(dublinCore, "rights", element{says: aCopyright, rank: 1})

	both(itunes, "summary", element{aSummary, 2, htmlText})
	both(itunes, "subtitle", element{says: aSummary, rank: 4})
	both(itunes, "author", element{says: anAuthor})
	both(itunes, "keywords", element{says: keywords})
	both(itunes, "category", element{says: aGenre})
	both(itunes, "image", element{says: anImage, rank: 1})
	inside(itunes, "title", element{says: aTitle, rank: 3})

	both(media, "thumbnail", element{says: anImage, rank: 2})
	both(media, "content", element{says: aMedium, rank: 2})
	inside(media, "title", element{says: aTitle, rank: 2})
	inside(media, "description", element{aSummary, 5, atomText})
	inside(media, "category", element{says: aCategory})
	inside(media, "content", element{says: aMedium, rank: 3})
	inside(media, "group", element{says: mediaGroup})

	inside(content, "encoded", element{aContent, 0, htmlText})
	inside(xhtml, "body", element{aContent, 2, htmlText})
	outside(updates, "updateperiod", element{says: aPeriod})
	outside(updates, "updatefrequency", element{says: aFrequency})
	return m
}()
